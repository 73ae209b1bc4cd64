//! What a group of requests comes to, done in one write transaction of the database that is yet to be committed.

use std::sync::Arc;

use redb::{Table, WriteTransaction};

use super::codec::{Kind, entry_row};
use super::late::{Late, RESERVE, only_event};
use super::logbook::{Facts, Logbook};
use super::reads;
use super::request::Work;
use super::tables::{ENTRIES, FACTS, LOG, RESERVED, REVISION, Standing};
use crate::storage::decide::{Decision, decide};
use crate::storage::transaction::yet_to_come;
use crate::storage::{Batch, Change, Error, Limits, Outcome, Revision, Transaction};

/// What a group of requests comes to, once it is committed.
pub(super) struct Staged {
    pub(super) answers: Vec<Result<Outcome, Error>>,
    pub(super) batches: Vec<Arc<Batch>>,
    pub(super) revision: Revision,
    /// The log was cut off after this revision.
    pub(super) compacted: Option<Revision>,
    /// Revisions up to this one are set aside.
    pub(super) reserved: Revision,
}

/// Does a group of requests, after everything that is late; without requests, that alone.
pub(super) fn stage(
    transaction: &WriteTransaction,
    on_disk: Standing,
    late: &Late,
    group: &[&Work],
    limits: Limits,
) -> Result<Staged, redb::Error> {
    let staged = Staged {
        answers: Vec::with_capacity(group.len()),
        batches: Vec::new(),
        revision: late.beside(on_disk.revision).map_or(on_disk.revision, Late::revision),
        compacted: None,
        reserved: on_disk.reserved,
    };
    let facts = transaction.open_table(FACTS)?;
    let log = Logbook::open(transaction.open_table(LOG)?, &facts)?;
    let mut stage = Stage {
        facts,
        entries: transaction.open_table(ENTRIES)?,
        log,
        staged,
        any_late: !late.is_empty(),
        rests: false,
    };
    for write in late.writes() {
        put(&mut stage.entries, &write.batch)?;
        stage.log.add_late(&write.batch, write.on_disk)?;
    }
    for work in group {
        let answer = stage.answer(work)?;
        stage.staged.answers.push(answer);
    }
    stage.end(limits)
}

/// The tables of the transaction, and what has been done so far.
struct Stage<'a> {
    facts: Facts<'a>,
    entries: Table<'a, &'static str, &'static [u8]>,
    log: Logbook<'a>,
    staged: Staged,
    any_late: bool,
    /// Nothing more is expected to be late.
    rests: bool,
}

impl Stage<'_> {
    fn answer(&mut self, work: &Work) -> Result<Result<Outcome, Error>, redb::Error> {
        match work {
            Work::Commit(wanted) => return self.commit(wanted, Kind::Lasting).map(Ok),
            Work::CommitLate(wanted) => return self.commit(wanted, Kind::Late).map(Ok),
            Work::Compact(upto) if *upto > self.staged.revision => {
                return Ok(Err(yet_to_come(*upto, self.staged.revision)));
            }
            Work::Compact(upto) => {
                if self.log.forget(*upto)? {
                    self.staged.compacted = self.staged.compacted.max(Some(*upto));
                }
            }
            Work::Rest => self.rests = true,
            Work::Mend => {}
        }
        Ok(Ok(Outcome::Committed { revision: self.staged.revision }))
    }

    fn commit(&mut self, wanted: &Transaction, kind: Kind) -> Result<Outcome, redb::Error> {
        let look = |key: &str| reads::entry(&self.entries, key);
        match decide(wanted, self.staged.revision + 1, look)? {
            Decision::Conflict { key, current } => return Ok(Outcome::Conflict { key, current }),
            Decision::Nothing => {}
            Decision::Change(batch) => {
                put(&mut self.entries, &batch)?;
                match only_event(&batch) {
                    Some((_, previous)) if kind == Kind::Late => {
                        self.log.add_late(&batch, previous)?;
                        self.any_late = true;
                    }
                    _ => self.log.add(&batch, Kind::Lasting)?,
                }
                self.staged.revision = batch.revision;
                self.staged.batches.push(Arc::new(batch));
            }
        }
        Ok(Outcome::Committed { revision: self.staged.revision })
    }

    fn end(mut self, limits: Limits) -> Result<Staged, redb::Error> {
        self.log.bound(limits)?;
        self.log.close(&mut self.facts)?;
        self.facts.insert(REVISION, self.staged.revision)?;
        if self.rests {
            self.staged.reserved = 0;
        } else if self.any_late {
            // Where there are some, there will be more.
            self.staged.reserved = self.staged.revision + RESERVE;
        }
        self.facts.insert(RESERVED, self.staged.reserved)?;
        Ok(self.staged)
    }
}

fn put(entries: &mut Table<'_, &'static str, &'static [u8]>, batch: &Batch) -> Result<(), redb::Error> {
    for event in &batch.events {
        match &event.change {
            Change::Put { value, created } => {
                entries.insert(&*event.key, entry_row(*created, batch.revision, value).as_slice())?;
            }
            Change::Delete { .. } => {
                entries.remove(&*event.key)?;
            }
        }
    }
    Ok(())
}
