//! The recent changes of a store in memory, bounded in number and bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Batch, Error, Revision};

/// How much of the past a store keeps for watches to go on from, whichever is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Revisions.
    pub revisions: usize,
    /// Bytes of keys and values.
    pub bytes: usize,
}

/// A cache that was away for less than so many writes goes on without a list: a minute at 160 writes a second.
const LOG_REVISIONS: usize = 10_000;
/// The log never outweighs what a master of a few thousand pods holds anyway.
const LOG_BYTES: usize = 64 * 1024 * 1024;

/// Batches handed over at once, so that a watcher far behind takes a bounded part of memory.
pub(super) const HAND_BATCHES: usize = 128;
/// Bytes handed over at once, beside the one batch that passes them.
pub(super) const HAND_BYTES: usize = 4 * 1024 * 1024;

impl Default for Limits {
    fn default() -> Self {
        Self { revisions: LOG_REVISIONS, bytes: LOG_BYTES }
    }
}

/// Consecutive batches, the newest always among them.
#[derive(Debug)]
pub(super) struct History {
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
    /// Everything after this revision is here.
    oldest: Revision,
    limits: Limits,
}

impl History {
    /// Nothing yet, at that revision.
    pub(super) fn new(revision: Revision, limits: Limits) -> Self {
        Self { batches: VecDeque::new(), bytes: 0, oldest: revision, limits }
    }

    /// Adds what happened, and forgets what is too much.
    pub(super) fn push(&mut self, batch: Arc<Batch>) {
        self.bytes += batch.weight();
        self.batches.push_back(batch);
        while self.batches.len() > 1 && self.is_over() {
            self.forget_first();
        }
    }

    /// Forgets everything up to that revision.
    pub(super) fn compact(&mut self, revision: Revision) {
        while self.batches.front().is_some_and(|batch| batch.revision <= revision) {
            self.forget_first();
        }
        self.oldest = self.oldest.max(revision);
    }

    /// What happened after that revision, oldest first, and as much as is handed over at once.
    pub(super) fn after(&self, seen: Revision) -> Result<Vec<Arc<Batch>>, Error> {
        if seen < self.oldest {
            return Err(Error::Compacted { asked: seen, oldest: self.oldest });
        }
        let from = self.batches.partition_point(|batch| batch.revision <= seen);
        let mut bytes = 0;
        let fits = |batch: &&Arc<Batch>| {
            let room = bytes < HAND_BYTES;
            bytes += batch.weight();
            room
        };
        Ok(self.batches.iter().skip(from).take(HAND_BATCHES).take_while(fits).cloned().collect())
    }

    fn is_over(&self) -> bool {
        self.batches.len() > self.limits.revisions || self.bytes > self.limits.bytes
    }

    fn forget_first(&mut self) {
        if let Some(first) = self.batches.pop_front() {
            self.bytes -= first.weight();
            self.oldest = first.revision;
        }
    }
}
