//! The one writer of a store: everything that waits is done in order, in one commit, and answered when it is on the disk.
//!
//! Writes that may be late are answered at once and kept in memory, as long as nothing waits that may not, there is not too
//! much of them, and enough revisions are set aside; every commit takes along all of it. So the file is always what the
//! store was at one revision, and what a kill costs is the end of what was late, never something before it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use redb::WriteTransaction;
use tokio::sync::watch;

use super::failure::in_database;
use super::late::{self, Late};
use super::medium::Medium;
use super::request::{Request, Work};
use super::shared::Shared;
use super::stage::{Staged, stage};
use super::tables::{ENTRIES, Look, Standing, examine, open, standing_of};
use super::{failure, reads};
use crate::storage::decide::{Decision, decide};
use crate::storage::{Batch, Error, Limits, Outcome, Revision};

/// Requests done in one commit; more of them would make the first wait long for its answer.
const GROUP_REQUESTS: usize = 512;
/// How long a group waits for more once several have come at a time: a fraction of what a commit takes, and each commit
/// saved is a dozen pages and two waits for the disk. Who writes alone never waits.
const GATHER: Duration = Duration::from_micros(300);

/// How much the writer goes before other threads that are as busy, as `nice` counts it: everybody who writes waits for it,
/// and it waits for the disk more than it works.
const NICENESS: i32 = -10;

pub(super) struct Writer {
    pub(super) medium: Box<dyn Medium>,
    pub(super) shared: Arc<Shared>,
    pub(super) limits: Limits,
    /// The revision of the store, and of everybody who was told of one.
    pub(super) newest: watch::Sender<Revision>,
    /// What the file says of itself; what the store is beyond it is late.
    pub(super) on_disk: Standing,
    /// How long anything is late.
    pub(super) late_for: Duration,
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
    pub(super) fn run(mut self, requests: Receiver<Request>) {
        // On Linux that is this thread. Who may not ask for it is served as well, only later when all are busy.
        if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
            tracing::debug!(%error, "the store is written by a thread like any other");
        }
        let mut group = Vec::with_capacity(GROUP_REQUESTS);
        let (mut due, mut was_shared) = (None, false);
        loop {
            match wait(&requests, due) {
                Waited::Asked(first) => {
                    group.push(first);
                    if was_shared {
                        std::thread::sleep(GATHER);
                    }
                    group.extend(requests.try_iter().take(GROUP_REQUESTS - 1));
                }
                // Whatever comes of it: the next try is as far away as this one was.
                Waited::Due => due = None,
                Waited::Over => break,
            }
            was_shared = group.len() > 1;
            let works: Vec<&Work> = group.iter().map(|request| &request.work).collect();
            let answers = self.serve(&works);
            for (request, answer) in group.drain(..).zip(answers) {
                // Whoever has gone away does not want to know.
                let _ = request.reply.send(answer);
                drop(request.room);
            }
            due = match due {
                _ if self.shared.late().is_empty() => None,
                Some(due) => Some(due),
                None => Instant::now().checked_add(self.late_for),
            };
        }
        let file = self.shared.file.clone();
        for error in self.serve(&[&Work::Rest]).into_iter().filter_map(Result::err) {
            tracing::warn!(file = %file.display(), %error, "the last heartbeats were not written; nothing else is lost");
        }
        if let Err(error) = self.shared.close() {
            tracing::warn!(file = %file.display(), %error, "the store was not closed cleanly, nothing is lost");
        }
    }

    /// Does what is asked; without a request, brings to the disk what is late.
    fn serve(&mut self, group: &[&Work]) -> Vec<Result<Outcome, Error>> {
        if !group.is_empty() && group.iter().all(|work| matches!(work, Work::Mend)) {
            return self.mend(group.len());
        }
        if let Some(answers) = self.answer_late(group) {
            return answers;
        }
        match self.commit(group) {
            Ok(staged) => {
                self.publish(&staged.batches, staged.compacted, staged.revision);
                staged.answers
            }
            Err(failure) => self.settle(failure, group.len()),
        }
    }

    /// Opens the file anew if it has failed. Nothing is written, so that a full disk can be read.
    fn mend(&mut self, requests: usize) -> Vec<Result<Outcome, Error>> {
        let revision = *self.newest.borrow();
        match self.begin().and_then(|transaction| Ok(transaction.abort()?)) {
            Ok(()) => vec![Ok(Outcome::Committed { revision }); requests],
            Err(error) => self.settle(error.into(), requests),
        }
    }

    /// Does a group of writes that may all be late, in memory alone; `None` when it has to go to the disk.
    fn answer_late(&mut self, group: &[&Work]) -> Option<Vec<Result<Outcome, Error>>> {
        let wanted: Vec<_> = group.iter().map(|work| work.late()).collect::<Option<_>>()?;
        if wanted.is_empty() {
            return None;
        }
        // A file that has failed may hold more than was told: nothing is decided before it is opened anew.
        let entries = self.shared.begin_read().ok()?.open_table(ENTRIES).ok()?;
        let (before, mut late) = (self.shared.late(), Late::default());
        let (mut answers, mut batches) = (Vec::new(), Vec::new());
        let mut revision = *self.newest.borrow();
        for wanted in wanted {
            let look = |key: &str| match late.entry(key).or_else(|| before.entry(key)) {
                Some(entry) => Ok(Some(entry)),
                None => reads::entry(&entries, key),
            };
            answers.push(Ok(match decide(wanted, revision + 1, look).ok()? {
                Decision::Conflict { key, current } => Outcome::Conflict { key, current },
                Decision::Nothing => Outcome::Committed { revision },
                Decision::Change(batch) => {
                    revision = batch.revision;
                    let batch = Arc::new(batch);
                    if !late.add(&batch) {
                        return None;
                    }
                    batches.push(batch);
                    Outcome::Committed { revision }
                }
            }));
        }
        let has_room = before.has_room_for(&late, late::most(self.shared.recent_limits));
        if revision > self.on_disk.newest_given() || !has_room {
            return None;
        }
        drop(before);
        self.shared.add_late(&batches);
        self.publish(&batches, None, revision);
        Some(answers)
    }

    fn commit(&mut self, group: &[&Work]) -> Result<Staged, Failure> {
        let mut transaction = self.begin()?;
        transaction.set_quick_repair(true);
        let staged = stage(&transaction, self.on_disk, &self.shared.late(), group, self.limits)?;
        // What is late is taken along even when all else turned out to change nothing, for the work is done.
        let is_as_before =
            (staged.revision, staged.reserved) == (self.on_disk.revision, self.on_disk.reserved);
        if is_as_before && staged.compacted.is_none() {
            transaction.abort().map_err(redb::Error::from)?;
            return Ok(staged);
        }
        if let Err(error) = transaction.commit() {
            return Err(Failure { error: error.into(), staged: Some(Box::new(staged)) });
        }
        (self.on_disk.revision, self.on_disk.reserved) = (staged.revision, staged.reserved);
        self.shared.forget_late();
        Ok(staged)
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

    /// Tells watchers and readers what is committed, or late.
    fn publish(&self, batches: &[Arc<Batch>], compacted: Option<Revision>, revision: Revision) {
        let mut recent = self.shared.recent();
        for batch in batches {
            recent.push(batch.clone());
        }
        if let Some(revision) = compacted {
            recent.compact(revision);
        }
        drop(recent);
        self.newest.send_if_modified(|newest| {
            let is_newer = revision > *newest;
            *newest = revision.max(*newest);
            is_newer
        });
    }

    /// Finds out from the disk what a failed commit came to, so that nobody is told something else than what is there.
    fn settle(&mut self, failure: Failure, requests: usize) -> Vec<Result<Outcome, Error>> {
        let file = &self.shared.file;
        tracing::warn!(file = %file.display(), error = %failure.error, "a commit failed; opening the store anew");
        let reason = failure.error.to_string();
        let before = self.on_disk.revision;
        let error = match (self.reopen(), failure.staged) {
            (Ok(()), Some(staged))
                if staged.revision > before && self.on_disk.revision >= staged.revision =>
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
        let before = self.on_disk.revision;
        let mut found = self.on_disk;
        self.shared.replace(|| {
            let database = open(self.medium.open()?)?;
            found = standing_of(&database)?;
            if found.revision < before {
                let reason =
                    format!("it is at revision {}, and {before} was on the disk before", found.revision);
                return Err(redb::Error::Corrupted(reason));
            }
            Ok(database)
        })?;
        self.on_disk = found;
        if found.revision > before {
            // A commit that was given up had happened, and has taken along what was late.
            self.shared.restart_recent(found.revision);
            self.shared.forget_late();
            self.newest.send_modify(|newest| *newest = found.revision.max(*newest));
        }
        Ok(())
    }
}

/// What the writer was woken by.
enum Waited {
    Asked(Request),
    /// What is late is due.
    Due,
    /// Nobody can ask any more.
    Over,
}

fn wait(requests: &Receiver<Request>, due: Option<Instant>) -> Waited {
    let Some(due) = due else { return requests.recv().map_or(Waited::Over, Waited::Asked) };
    let left = due.saturating_duration_since(Instant::now());
    if left.is_zero() {
        // However much there is to do.
        return Waited::Due;
    }
    match requests.recv_timeout(left) {
        Ok(request) => Waited::Asked(request),
        Err(RecvTimeoutError::Timeout) => Waited::Due,
        Err(RecvTimeoutError::Disconnected) => Waited::Over,
    }
}
