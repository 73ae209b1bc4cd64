//! How far back and how far on an etcd is, as this store knows it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::storage::{Limits, Revision};

/// What a store, its watches and its compaction have in common.
#[derive(Debug)]
pub(super) struct Shared {
    /// Where the etcd is, for messages.
    pub(super) store: String,
    limits: Limits,
    newest: AtomicU64,
    compacted: AtomicU64,
}

impl Shared {
    pub(super) fn new(store: String, limits: Limits) -> Self {
        Self { store, limits, newest: AtomicU64::new(0), compacted: AtomicU64::new(0) }
    }

    /// Notes that the etcd has come to a revision.
    pub(super) fn note(&self, revision: Revision) {
        self.newest.fetch_max(revision, Ordering::SeqCst);
    }

    /// Notes that the log was cut off after a revision.
    pub(super) fn note_compacted(&self, revision: Revision) {
        self.compacted.fetch_max(revision, Ordering::SeqCst);
    }

    /// The oldest revision that a watch may go on from, and the newest known.
    ///
    /// etcd's log may reach back further: the bound in bytes is etcd's own, for none of them are in memory here.
    pub(super) fn reach(&self) -> (Revision, Revision) {
        let newest = self.newest.load(Ordering::SeqCst);
        let most = Revision::try_from(self.limits.revisions).unwrap_or(Revision::MAX);
        (newest.saturating_sub(most).max(self.compacted.load(Ordering::SeqCst)), newest)
    }
}
