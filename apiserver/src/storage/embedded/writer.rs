//! The one writer of a store: everything that waits is done in order, in one commit, and answered when it is on the disk.

use std::sync::Arc;

use redb::{ReadableTable, ReadableTableMetadata, Table, WriteTransaction};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use super::codec::{batch_row, entry_row};
use super::failure::in_database;
use super::medium::Medium;
use super::shared::Shared;
use super::tables::{ENTRIES, FACTS, LOG, LOG_BYTES, Look, REVISION, examine, open};
use super::{failure, reads, tables};
use crate::storage::decide::{Decision, decide};
use crate::storage::transaction::yet_to_come;
use crate::storage::{Batch, Change, Error, Limits, Outcome, Revision, Transaction};

/// Requests done in one commit; more of them would make the first wait long for its answer.
const GROUP_REQUESTS: usize = 512;

/// Something to do and whom to tell.
pub(super) struct Request {
    pub(super) work: Work,
    pub(super) reply: oneshot::Sender<Result<Outcome, Error>>,
    /// Its part of the queue, free again when it is answered.
    pub(super) room: OwnedSemaphorePermit,
}

/// Something to do.
pub(super) enum Work {
    Commit(Transaction),
    /// Forget the log up to this revision.
    Compact(Revision),
    /// Open the file anew if it has failed.
    Mend,
}

pub(super) struct Writer {
    pub(super) medium: Box<dyn Medium>,
    pub(super) shared: Arc<Shared>,
    pub(super) limits: Limits,
    /// The revision of the file, and of everybody who was told of one.
    pub(super) newest: watch::Sender<Revision>,
}

/// What a group of requests comes to, once it is committed.
struct Staged {
    answers: Vec<Result<Outcome, Error>>,
    batches: Vec<Arc<Batch>>,
    revision: Revision,
    /// The log was cut off after this revision.
    compacted: Option<Revision>,
}

/// A group that could not be committed.
struct Failure {
    error: redb::Error,
    /// What it would have come to, if it got so far that it may have been.
    staged: Option<Box<Staged>>,
}

impl From<redb::Error> for Failure {
    fn from(error: redb::Error) -> Self {
        Self { error, staged: None }
    }
}

impl Writer {
    /// Works until nobody can ask any more, then closes the file.
    pub(super) fn run(mut self, mut requests: UnboundedReceiver<Request>) {
        let mut group = Vec::with_capacity(GROUP_REQUESTS);
        while requests.blocking_recv_many(&mut group, GROUP_REQUESTS) > 0 {
            let answers = self.serve(&group);
            for (request, answer) in group.drain(..).zip(answers) {
                // Whoever has gone away does not want to know.
                let _ = request.reply.send(answer);
                drop(request.room);
            }
        }
        if let Err(error) = self.shared.close() {
            tracing::warn!(file = %self.shared.file.display(), %error, "the store was not closed cleanly, nothing is lost");
        }
    }

    fn serve(&mut self, group: &[Request]) -> Vec<Result<Outcome, Error>> {
        match self.commit(group) {
            Ok(staged) => {
                self.publish(&staged);
                staged.answers
            }
            Err(failure) => self.settle(failure, group.len()),
        }
    }

    fn commit(&mut self, group: &[Request]) -> Result<Staged, Failure> {
        let mut transaction = self.begin()?;
        transaction.set_quick_repair(true);
        let staged = self.stage(&transaction, group)?;
        let done = if staged.batches.is_empty() && staged.compacted.is_none() {
            transaction.abort().map_err(redb::Error::from)
        } else {
            transaction.commit().map_err(redb::Error::from)
        };
        match done {
            Ok(()) => Ok(staged),
            Err(error) => Err(Failure { error, staged: Some(Box::new(staged)) }),
        }
    }

    /// Begins to write, with the file opened anew if it had failed.
    fn begin(&mut self) -> Result<WriteTransaction, redb::Error> {
        match self.shared.begin_write() {
            Err(error) if failure::is_broken(&error) => {
                self.reopen()?;
                self.shared.begin_write()
            }
            begun => begun,
        }
    }

    fn stage(&self, transaction: &WriteTransaction, group: &[Request]) -> Result<Staged, redb::Error> {
        let mut facts = transaction.open_table(FACTS)?;
        let mut entries = transaction.open_table(ENTRIES)?;
        let mut log = Logbook {
            table: transaction.open_table(LOG)?,
            bytes: facts.get(LOG_BYTES)?.map_or(0, |bytes| bytes.value()),
        };
        let revision = *self.newest.borrow();
        let mut staged = Staged { answers: Vec::new(), batches: Vec::new(), revision, compacted: None };
        for request in group {
            let answer = match &request.work {
                Work::Commit(wanted) => {
                    let look = |key: &str| reads::entry(&entries, key);
                    match decide(wanted, staged.revision + 1, look)? {
                        Decision::Conflict { key, current } => Ok(Outcome::Conflict { key, current }),
                        Decision::Nothing => Ok(Outcome::Committed { revision: staged.revision }),
                        Decision::Change(batch) => {
                            write(&mut entries, &batch)?;
                            log.add(&batch)?;
                            staged.revision = batch.revision;
                            staged.batches.push(Arc::new(batch));
                            Ok(Outcome::Committed { revision: staged.revision })
                        }
                    }
                }
                Work::Compact(upto) if *upto > staged.revision => Err(yet_to_come(*upto, staged.revision)),
                Work::Compact(upto) => {
                    if log.forget(*upto)? {
                        staged.compacted = staged.compacted.max(Some(*upto));
                    }
                    Ok(Outcome::Committed { revision: staged.revision })
                }
                Work::Mend => Ok(Outcome::Committed { revision: staged.revision }),
            };
            staged.answers.push(answer);
        }
        log.bound(self.limits)?;
        facts.insert(REVISION, staged.revision)?;
        facts.insert(LOG_BYTES, log.bytes)?;
        Ok(staged)
    }

    fn publish(&self, staged: &Staged) {
        let mut recent = self.shared.recent();
        for batch in &staged.batches {
            recent.push(batch.clone());
        }
        if let Some(revision) = staged.compacted {
            recent.compact(revision);
        }
        drop(recent);
        self.newest.send_if_modified(|newest| std::mem::replace(newest, staged.revision) != staged.revision);
    }

    /// Finds out from the disk what a failed commit came to, so that nobody is told something else than what is there.
    fn settle(&mut self, failure: Failure, requests: usize) -> Vec<Result<Outcome, Error>> {
        let file = &self.shared.file;
        tracing::warn!(file = %file.display(), error = %failure.error, "a commit failed; opening the store anew");
        let reason = failure.error.to_string();
        let error = match (self.reopen(), failure.staged) {
            (Ok(()), Some(staged))
                if !staged.batches.is_empty() && *self.newest.borrow() >= staged.revision =>
            {
                return staged.answers;
            }
            (Err(_), Some(staged)) if !self.lacks(staged.revision) => {
                Error::Unknown { file: self.shared.file.clone(), reason }
            }
            _ => in_database(&self.shared.file, failure.error),
        };
        vec![Err(error); requests]
    }

    /// True when the file can be read, though it cannot be opened, and has not come to that revision: it never will.
    fn lacks(&self, revision: Revision) -> bool {
        let look = self.medium.look().map_err(redb::Error::from);
        let standing = look.and_then(|look| examine(look, Look::Glance));
        standing.is_ok_and(|standing| standing.revision < revision)
    }

    /// Opens the file anew, which also writes its head again and waits for the disk: what it says from then on stays.
    fn reopen(&mut self) -> Result<(), redb::Error> {
        let told = *self.newest.borrow();
        let mut revision = told;
        self.shared.replace(|| {
            let database = open(self.medium.open()?)?;
            revision = tables::revision(&database)?;
            if revision < told {
                let reason = format!("it is at revision {revision}, and {told} was on the disk before");
                return Err(redb::Error::Corrupted(reason));
            }
            Ok(database)
        })?;
        if revision > told {
            self.shared.restart_recent(revision);
            self.newest.send_replace(revision);
        }
        Ok(())
    }
}

/// The log in the file and how much it holds.
struct Logbook<'a> {
    table: Table<'a, u64, &'static [u8]>,
    bytes: u64,
}

impl Logbook<'_> {
    fn add(&mut self, batch: &Batch) -> Result<(), redb::Error> {
        let row = batch_row(&batch.events);
        self.table.insert(batch.revision, row.as_slice())?;
        self.bytes += row.len() as u64;
        Ok(())
    }

    /// Forgets everything up to that revision; false when there was nothing of it.
    fn forget(&mut self, upto: Revision) -> Result<bool, redb::Error> {
        let mut any = false;
        while self.table.first()?.is_some_and(|(revision, _)| revision.value() <= upto) {
            self.forget_first()?;
            any = true;
        }
        Ok(any)
    }

    /// Forgets what is too much; the newest stays in any case, for its watchers.
    fn bound(&mut self, limits: Limits) -> Result<(), redb::Error> {
        let (revisions, bytes) = (limits.revisions as u64, limits.bytes as u64);
        loop {
            let rows = self.table.len()?;
            if rows <= 1 || (rows <= revisions && self.bytes <= bytes) {
                return Ok(());
            }
            self.forget_first()?;
        }
    }

    fn forget_first(&mut self) -> Result<(), redb::Error> {
        if let Some((_, row)) = self.table.pop_first()? {
            self.bytes = self.bytes.saturating_sub(row.value().len() as u64);
        }
        Ok(())
    }
}

fn write(entries: &mut Table<'_, &'static str, &'static [u8]>, batch: &Batch) -> Result<(), redb::Error> {
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
