//! Bounded in-memory event history.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Batch, Error, Revision};

/// Limits of the event history. The stricter one applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of revisions.
    pub revisions: usize,
    /// Maximum bytes of keys and values.
    pub bytes: usize,
}

/// Default number of revisions in the log. A watch cache that missed fewer writes resumes without a list. The log
/// covers one minute at 160 writes per second.
const LOG_REVISIONS: usize = 10_000;
/// Default size of the log in bytes. It is about what a control plane with a few thousand pods uses.
const LOG_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of batches per read. It limits the memory of a watcher that is far behind.
pub(super) const READ_BATCHES: usize = 128;
/// Maximum bytes per read. One batch may exceed it.
pub(super) const READ_BYTES: usize = 4 * 1024 * 1024;

impl Default for Limits {
    fn default() -> Self {
        Self { revisions: LOG_REVISIONS, bytes: LOG_BYTES }
    }
}

/// Consecutive batches, which always include the newest one.
#[derive(Debug)]
pub(super) struct History {
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
    /// The history is complete after this revision.
    oldest: Revision,
    limits: Limits,
}

impl History {
    /// Creates an empty history at a revision.
    pub(super) fn new(revision: Revision, limits: Limits) -> Self {
        Self { batches: VecDeque::new(), bytes: 0, oldest: revision, limits }
    }

    /// Adds a batch and drops the oldest ones beyond the limits.
    pub(super) fn push(&mut self, batch: Arc<Batch>) {
        self.bytes += batch.weight();
        self.batches.push_back(batch);
        while self.batches.len() > 1 && self.is_over() {
            self.forget_first();
        }
    }

    /// Drops everything up to and including a revision.
    pub(super) fn compact(&mut self, revision: Revision) {
        while self.batches.front().is_some_and(|batch| batch.revision <= revision) {
            self.forget_first();
        }
        self.oldest = self.oldest.max(revision);
    }

    /// Returns the batches after a revision, oldest first, up to the read limit.
    pub(super) fn after(&self, seen: Revision) -> Result<Vec<Arc<Batch>>, Error> {
        if seen < self.oldest {
            return Err(Error::Compacted { requested: seen, oldest: self.oldest });
        }
        let from = self.batches.partition_point(|batch| batch.revision <= seen);
        let mut bytes = 0;
        let fits = |batch: &&Arc<Batch>| {
            let room = bytes < READ_BYTES;
            bytes += batch.weight();
            room
        };
        Ok(self.batches.iter().skip(from).take(READ_BATCHES).take_while(fits).cloned().collect())
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
