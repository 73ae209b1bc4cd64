//! Periodic compaction of etcd, and the range of revisions that a watch may start from.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Inner;
use crate::storage::{Limits, Revision};

/// Compaction interval, as in kube-apiserver.
const INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Compacts to the revision of the previous round, until the store is dropped.
///
/// Several control planes may compact the same etcd independently, which is harmless.
pub(super) async fn run(store: Weak<Inner>) {
    let mut last: Option<Revision> = None;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(store) = store.upgrade() else { return };
        match round(&store, last).await {
            Ok(now) => last = Some(now),
            Err(error) => {
                tracing::warn!(%error, "cannot compact etcd; retrying in the next interval")
            }
        }
    }
}

/// Compacts to `last` and returns the current revision.
pub(super) async fn round(store: &Inner, last: Option<Revision>) -> Result<Revision, crate::storage::Error> {
    let now = store.revision().await?;
    if let Some(last) = last.filter(|last| *last < now) {
        store.compact(last).await?;
        tracing::debug!(revision = last, "compacted etcd");
    }
    Ok(now)
}

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
