//! Applies a group of requests within one write transaction.

use std::sync::Arc;

use redb::{Table, WriteTransaction};

use super::codec::{Kind, entry_row};
use super::deferred::{Deferred, RESERVE, only_event};
use super::log_table::{Facts, LogTable};
use super::reads;
use super::request::Work;
use super::tables::{ENTRIES, FACTS, FileState, LOG, RESERVED, REVISION};
use crate::storage::decide::{Decision, decide};
use crate::storage::transaction::future_revision;
use crate::storage::{Batch, Change, Error, Limits, Outcome, Revision, Transaction};

/// The result of a group of requests. It is valid once the transaction is committed.
pub(super) struct Staged {
    pub(super) answers: Vec<Result<Outcome, Error>>,
    pub(super) batches: Vec<Arc<Batch>>,
    pub(super) revision: Revision,
    /// The revision up to which the log was compacted, if it was.
    pub(super) compacted: Option<Revision>,
    /// The revision up to which revisions are reserved.
    pub(super) reserved: Revision,
}

/// Applies all deferred writes, and then a group of requests, which may be empty.
pub(super) fn stage(
    transaction: &WriteTransaction,
    on_disk: FileState,
    deferred: &Deferred,
    group: &[&Work],
    limits: Limits,
) -> Result<Staged, redb::Error> {
    let staged = Staged {
        answers: Vec::with_capacity(group.len()),
        batches: Vec::new(),
        revision: deferred.beside(on_disk.revision).map_or(on_disk.revision, Deferred::revision),
        compacted: None,
        reserved: on_disk.reserved,
    };
    let facts = transaction.open_table(FACTS)?;
    let log = LogTable::open(transaction.open_table(LOG)?, &facts)?;
    let mut stage = Stage {
        facts,
        entries: transaction.open_table(ENTRIES)?,
        log,
        staged,
        any_deferred: !deferred.is_empty(),
        is_flush: false,
    };
    for write in deferred.writes() {
        put(&mut stage.entries, &write.batch)?;
        stage.log.add_deferred(&write.batch, write.on_disk)?;
    }
    for work in group {
        let answer = stage.answer(work)?;
        stage.staged.answers.push(answer);
    }
    stage.end(limits)
}

/// The open tables and the results so far.
struct Stage<'a> {
    facts: Facts<'a>,
    entries: Table<'a, &'static str, &'static [u8]>,
    log: LogTable<'a>,
    staged: Staged,
    any_deferred: bool,
    /// True if the request is a flush. No deferred writes are expected after it.
    is_flush: bool,
}

impl Stage<'_> {
    fn answer(&mut self, work: &Work) -> Result<Result<Outcome, Error>, redb::Error> {
        match work {
            Work::Commit(wanted) => return self.commit(wanted, Kind::Durable).map(Ok),
            Work::CommitDeferred(wanted) => return self.commit(wanted, Kind::Deferred).map(Ok),
            Work::Compact(upto) if *upto > self.staged.revision => {
                return Ok(Err(future_revision(*upto, self.staged.revision)));
            }
            Work::Compact(upto) => {
                if self.log.forget(*upto)? {
                    self.staged.compacted = self.staged.compacted.max(Some(*upto));
                }
            }
            Work::Flush => self.is_flush = true,
            Work::Reopen => {}
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
                    Some((_, previous)) if kind == Kind::Deferred => {
                        self.log.add_deferred(&batch, previous)?;
                        self.any_deferred = true;
                    }
                    _ => self.log.add(&batch, Kind::Durable)?,
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
        if self.is_flush {
            self.staged.reserved = 0;
        } else if self.any_deferred {
            // Further deferred writes are likely, so revisions are reserved for them.
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
