//! Periodic compaction of etcd.

use std::sync::Weak;
use std::time::Duration;

use super::Inner;
use crate::storage::Revision;

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
