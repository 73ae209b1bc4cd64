//! The range of revisions in etcd, as this store knows it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::storage::{Limits, Revision};

/// State shared by the store, its watches and compaction.
#[derive(Debug)]
pub(super) struct Shared {
    /// The endpoints, for messages.
    pub(super) store: String,
    limits: Limits,
    newest: AtomicU64,
    compacted: AtomicU64,
}

impl Shared {
    pub(super) fn new(store: String, limits: Limits) -> Self {
        Self { store, limits, newest: AtomicU64::new(0), compacted: AtomicU64::new(0) }
    }

    /// Records a revision that etcd reported.
    pub(super) fn record_revision(&self, revision: Revision) {
        self.newest.fetch_max(revision, Ordering::SeqCst);
    }

    /// Records a compaction.
    pub(super) fn record_compaction(&self, revision: Revision) {
        self.compacted.fetch_max(revision, Ordering::SeqCst);
    }

    /// The oldest revision from which a watch may start, and the newest known one.
    ///
    /// etcd may keep a longer log. The byte limit does not apply, because the log is in etcd and not in memory.
    pub(super) fn revision_range(&self) -> (Revision, Revision) {
        let newest = self.newest.load(Ordering::SeqCst);
        let most = Revision::try_from(self.limits.revisions).unwrap_or(Revision::MAX);
        (newest.saturating_sub(most).max(self.compacted.load(Ordering::SeqCst)), newest)
    }
}
