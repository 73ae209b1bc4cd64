//! Keeps the log of an etcd short: what is older than one round is forgotten.

use std::sync::Weak;
use std::time::Duration;

use super::Inner;
use crate::storage::Revision;

/// How long a change stays in the log at least; the stock server's pace.
const INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Forgets, every few minutes, what was in the log a round ago, until the store is gone.
///
/// Several masters on one etcd do so each by itself: what one has forgotten is nothing to the next.
pub(super) async fn run(store: Weak<Inner>) {
    let mut last: Option<Revision> = None;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(store) = store.upgrade() else { return };
        match round(&store, last).await {
            Ok(now) => last = Some(now),
            Err(error) => {
                tracing::warn!(%error, "the log of etcd cannot be cut off; trying again in a while")
            }
        }
    }
}

/// Forgets up to where the store was a round ago, and says where it is now.
pub(super) async fn round(store: &Inner, last: Option<Revision>) -> Result<Revision, crate::storage::Error> {
    let now = store.revision().await?;
    if let Some(last) = last.filter(|last| *last < now) {
        store.compact(last).await?;
        tracing::debug!(revision = last, "cut off the log of etcd");
    }
    Ok(now)
}
