//! Writer thread of the embedded store: commits queued requests in groups, and replies when they are on disk.
//!
//! The writer answers deferred writes from memory on three conditions: no other request waits, they stay within the
//! limits, and enough revisions are reserved. Every commit persists all of them. The file therefore always equals
//! the store at one revision, and a crash loses only the latest deferred writes.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use redb::WriteTransaction;
use tokio::sync::watch;

use super::deferred::{self, Deferred};
use super::failure::in_database;
use super::medium::Medium;
use super::request::{Request, Work};
use super::reserve::{self, LOG_ON_FULL_DISK};
use super::shared::Shared;
use super::stage::{Staged, stage};
use super::tables::{ENTRIES, FileState, Look, examine, file_state_of, open};
use super::{failure, reads};
use crate::storage::decide::{Decision, decide};
use crate::storage::{Batch, Error, Limits, Outcome, Revision};

/// Maximum number of requests per commit. More would delay the first reply.
const MAX_GROUP: usize = 512;
/// How long the writer gathers further requests after a commit with several requests. It is a fraction of a commit,
/// and each saved commit avoids a dozen pages and two syncs. A single client never waits for it.
const GATHER_TIME: Duration = Duration::from_micros(300);

/// Nice value of the thread. All clients that write wait for it, and it mostly waits for the disk.
const NICENESS: i32 = -10;

/// Delay before filling the reserve is retried.
const RESERVE_RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// While the disk is full, compaction, which blocks all writes, takes at most one tenth of the time.
const COMPACTION_SHARE: u32 = 10;

pub(super) struct Writer {
    pub(super) medium: Box<dyn Medium>,
    pub(super) shared: Arc<Shared>,
    pub(super) limits: Limits,
    /// The current revision, which watchers follow.
    pub(super) newest: watch::Sender<Revision>,
    /// The state of the file. Later writes are deferred.
    pub(super) on_disk: FileState,
    /// Maximum delay of deferred writes.
    pub(super) defer_limit: Duration,
    /// When to retry filling the reserve, or `None` while it is full.
    pub(super) fill_at: Option<Instant>,
    /// The earliest time of the next compaction; `None` before the first one.
    pub(super) compact_at: Option<Instant>,
}

/// A group that failed to commit.
struct Failure {
    error: redb::Error,
    /// The results, if the commit may still have succeeded.
    staged: Option<Box<Staged>>,
}

impl From<redb::Error> for Failure {
    fn from(error: redb::Error) -> Self {
        Self { error, staged: None }
    }
}

impl Writer {
    /// Handles requests until all senders are dropped, then closes the file.
    pub(super) fn run(mut self, requests: Receiver<Request>) {
        // On Linux this applies to the calling thread. Without permission it keeps normal priority.
        if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
            tracing::debug!(%error, "cannot raise the priority of the store's writer thread");
        }
        self.fill_reserve();
        let mut group = Vec::with_capacity(MAX_GROUP);
        let (mut due, mut was_shared) = (None, false);
        loop {
            match wait(&requests, due) {
                Waited::Asked(first) => {
                    group.push(first);
                    if was_shared {
                        std::thread::sleep(GATHER_TIME);
                    }
                    group.extend(requests.try_iter().take(MAX_GROUP - 1));
                }
                // The next flush is a full interval away, even if this one fails.
                Waited::Due => due = None,
                Waited::Over => break,
            }
            was_shared = group.len() > 1;
            let works: Vec<&Work> = group.iter().map(|request| &request.work).collect();
            let answers = self.serve(&works);
            for (request, answer) in group.drain(..).zip(answers) {
                // The requester may be gone.
                let _ = request.reply.send(answer);
                drop(request.room);
            }
            due = match due {
                _ if self.shared.deferred().is_empty() => None,
                Some(due) => Some(due),
                None => Instant::now().checked_add(self.defer_limit),
            };
        }
        let file = self.shared.file.clone();
        for error in self.serve(&[&Work::Flush]).into_iter().filter_map(Result::err) {
            tracing::warn!(file = %file.display(), %error, "the last heartbeats were not persisted; no other write is lost");
        }
        if let Err(error) = self.shared.close() {
            tracing::warn!(file = %file.display(), %error, "the store was not closed cleanly; no write is lost");
        }
    }

    /// Handles a group of requests. An empty one persists the deferred writes.
    fn serve(&mut self, group: &[&Work]) -> Vec<Result<Outcome, Error>> {
        if !group.is_empty() && group.iter().all(|work| matches!(work, Work::Reopen)) {
            return self.reopen_only(group.len());
        }
        if let Some(answers) = self.answer_deferred(group) {
            return answers;
        }
        // Checked before the commit, which changes the stored sizes.
        let is_growth = self.shared.is_disk_full() && !group.iter().all(|work| self.frees_space(work));
        match self.commit(group, self.limits) {
            Ok(staged) => {
                self.publish(&staged.batches, staged.compacted, staged.revision);
                if is_growth {
                    self.shared.set_disk_full(false);
                }
                if self.fill_at.is_some_and(|at| at <= Instant::now()) {
                    self.fill_reserve();
                }
                staged.answers
            }
            Err(failure) => {
                let is_full = failure::is_full(&failure.error);
                let answers = self.resolve_failed_commit(failure, group.len());
                let is_refused = answers.iter().all(|answer| matches!(answer, Err(Error::Full { .. })));
                if is_full && is_refused { self.commit_on_full_disk(group, answers) } else { answers }
            }
        }
    }

    /// On a full disk, commits the requests that free space, one at a time. Then it commits the others as far as
    /// the freed space allows. Requests that find no space keep their error in `answers`.
    fn commit_on_full_disk(
        &mut self,
        group: &[&Work],
        mut answers: Vec<Result<Outcome, Error>>,
    ) -> Vec<Result<Outcome, Error>> {
        if !self.shared.set_disk_full(true) {
            let file = self.shared.file.display();
            tracing::warn!(%file, "the disk is full: only deletes and writes that need no more space succeed");
        }
        let relief: Vec<bool> = group.iter().map(|work| self.frees_space(work)).collect();
        // An empty group consists of deferred writes, which only replace values.
        let is_any = group.is_empty() || relief.contains(&true);
        let has_growth = relief.contains(&false);
        let compacts = has_growth && self.compact_at.is_none_or(|at| at <= Instant::now());
        if !(is_any || compacts) || !self.medium.release_reserve().is_ok_and(|is_released| is_released) {
            return answers;
        }
        if group.is_empty() {
            self.commit_with_short_log(&[]);
        }
        self.retry(group, &mut answers, |index| relief[index]);
        if compacts {
            self.compact();
        }
        self.fill_reserve();
        if compacts && self.retry(group, &mut answers, |index| !relief[index]) {
            self.shared.set_disk_full(false);
        }
        answers
    }

    /// Commits the chosen requests of a group one by one. Returns whether one of them succeeded.
    fn retry(
        &mut self,
        group: &[&Work],
        answers: &mut [Result<Outcome, Error>],
        is_chosen: impl Fn(usize) -> bool,
    ) -> bool {
        let mut has_succeeded = false;
        for (index, (work, answer)) in group.iter().zip(answers).enumerate() {
            if is_chosen(index)
                && let Some(answered) = self.commit_with_short_log(&[*work]).into_iter().next()
            {
                has_succeeded |= answered.is_ok();
                *answer = answered;
            }
        }
        has_succeeded
    }

    /// Commits a group, and trims the log to the size for a full disk.
    fn commit_with_short_log(&mut self, group: &[&Work]) -> Vec<Result<Outcome, Error>> {
        match self.commit(group, LOG_ON_FULL_DISK) {
            Ok(staged) => {
                self.publish(&staged.batches, staged.compacted, staged.revision);
                staged.answers
            }
            Err(failure) => self.resolve_failed_commit(failure, group.len()),
        }
    }

    /// Returns the space of deleted objects and trimmed log entries to the file system. Free pages in the file are
    /// not enough: the file is sparse, so a free page may have no block on the disk.
    fn compact(&mut self) {
        let begun = Instant::now();
        self.commit_with_short_log(&[]);
        if let Err(error) = self.shared.compact() {
            tracing::debug!(%error, "the store was not compacted");
            if failure::is_broken(&error) {
                self.resolve_failed_commit(error.into(), 0);
            }
        }
        let pause = RESERVE_RETRY_INTERVAL.max(begun.elapsed() * COMPACTION_SHARE);
        self.compact_at = Instant::now().checked_add(pause);
    }

    fn frees_space(&self, work: &Work) -> bool {
        let Some(transaction) = work.transaction() else { return true };
        let stored_len = |key: &str| {
            let entries = self.shared.begin_read().ok()?.open_table(ENTRIES).ok()?;
            Some(reads::entry(&entries, key).ok()??.value.len())
        };
        reserve::frees_space(transaction, stored_len)
    }

    /// Fills the reserve as far as possible.
    fn fill_reserve(&mut self) {
        let is_filled = self.medium.fill_reserve().unwrap_or_else(|error| {
            let file = self.shared.file.display();
            tracing::warn!(%file, %error, "cannot reserve disk space; deletes will fail once the disk is full");
            false
        });
        self.fill_at = if is_filled { None } else { Instant::now().checked_add(RESERVE_RETRY_INTERVAL) };
    }

    /// Reopens a failed file. Nothing is written, so that a full disk stays readable.
    fn reopen_only(&mut self, requests: usize) -> Vec<Result<Outcome, Error>> {
        let revision = *self.newest.borrow();
        match self.begin().and_then(|transaction| Ok(transaction.abort()?)) {
            Ok(()) => vec![Ok(Outcome::Committed { revision }); requests],
            Err(error) => self.resolve_failed_commit(error.into(), requests),
        }
    }

    /// Answers a group of deferrable writes from memory. `None` if the group must be committed.
    fn answer_deferred(&mut self, group: &[&Work]) -> Option<Vec<Result<Outcome, Error>>> {
        let wanted: Vec<_> = group.iter().map(|work| work.deferred()).collect::<Option<_>>()?;
        if wanted.is_empty() {
            return None;
        }
        // A failed file may contain more than was reported: it must be reopened first.
        let entries = self.shared.begin_read().ok()?.open_table(ENTRIES).ok()?;
        let (before, mut deferred) = (self.shared.deferred(), Deferred::default());
        let (mut answers, mut batches) = (Vec::new(), Vec::new());
        let mut revision = *self.newest.borrow();
        for wanted in wanted {
            let look = |key: &str| match deferred.entry(key).or_else(|| before.entry(key)) {
                Some(entry) => Ok(Some(entry)),
                None => reads::entry(&entries, key),
            };
            answers.push(Ok(match decide(wanted, revision + 1, look).ok()? {
                Decision::Conflict { key, current } => Outcome::Conflict { key, current },
                Decision::Nothing => Outcome::Committed { revision },
                Decision::Change(batch) => {
                    revision = batch.revision;
                    let batch = Arc::new(batch);
                    if !deferred.add(&batch) {
                        return None;
                    }
                    batches.push(batch);
                    Outcome::Committed { revision }
                }
            }));
        }
        let has_room = before.has_room_for(&deferred, deferred::most(self.shared.recent_limits));
        if revision > self.on_disk.newest_given() || !has_room {
            return None;
        }
        drop(before);
        self.shared.add_deferred(&batches);
        self.publish(&batches, None, revision);
        Some(answers)
    }

    fn commit(&mut self, group: &[&Work], limits: Limits) -> Result<Staged, Failure> {
        let mut transaction = self.begin()?;
        transaction.set_quick_repair(true);
        let staged = stage(&transaction, self.on_disk, &self.shared.deferred(), group, limits)?;
        // Deferred writes are persisted even if the group changes nothing, because the work is done already.
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
        self.shared.forget_deferred();
        Ok(staged)
    }

    /// Starts a write transaction. Reopens the file first if an earlier failure has broken the open database.
    fn begin(&mut self) -> Result<WriteTransaction, redb::Error> {
        match self.shared.begin_write() {
            Err(error) if failure::is_broken(&error) => {
                self.reopen()?;
                self.shared.begin_write()
            }
            begun => begun,
        }
    }

    /// Publishes committed or deferred events to watchers.
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

    /// Determines from the file whether a failed commit took effect, so that the replies match the stored state.
    fn resolve_failed_commit(&mut self, failure: Failure, requests: usize) -> Vec<Result<Outcome, Error>> {
        let file = &self.shared.file;
        tracing::warn!(file = %file.display(), error = %failure.error, "a commit failed; reopening the store");
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

    /// True if the file is readable and older than the revision, so that the commit can never take effect.
    fn lacks(&self, revision: Revision) -> bool {
        let look = self.medium.open_read_only().map_err(redb::Error::from);
        let file_state = look.and_then(|look| examine(look, Look::Quick));
        file_state.is_ok_and(|file_state| file_state.revision < revision)
    }

    /// Reopens the file. Reopening rewrites and syncs the header, so that the state it finds is final.
    fn reopen(&mut self) -> Result<(), redb::Error> {
        let before = self.on_disk.revision;
        let mut found = self.on_disk;
        self.shared.replace(|| {
            let database = open(self.medium.open()?)?;
            found = file_state_of(&database)?;
            if found.revision < before {
                let reason = format!(
                    "its revision is {}, but revision {before} was already on the disk",
                    found.revision
                );
                return Err(redb::Error::Corrupted(reason));
            }
            Ok(database)
        })?;
        self.on_disk = found;
        if found.revision > before {
            // A commit that was reported as failed took effect, including deferred writes.
            self.shared.restart_recent(found.revision);
            self.shared.forget_deferred();
            self.newest.send_modify(|newest| *newest = found.revision.max(*newest));
        }
        Ok(())
    }
}

/// Why the writer wakes up.
enum Waited {
    Asked(Request),
    /// Deferred writes are due.
    Due,
    /// All senders are dropped.
    Over,
}

fn wait(requests: &Receiver<Request>, due: Option<Instant>) -> Waited {
    let Some(due) = due else { return requests.recv().map_or(Waited::Over, Waited::Asked) };
    let left = due.saturating_duration_since(Instant::now());
    if left.is_zero() {
        // Not postponed by further requests.
        return Waited::Due;
    }
    match requests.recv_timeout(left) {
        Ok(request) => Waited::Asked(request),
        Err(RecvTimeoutError::Timeout) => Waited::Due,
        Err(RecvTimeoutError::Disconnected) => Waited::Over,
    }
}
