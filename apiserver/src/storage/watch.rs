//! Watch streams over a log.
//!
//! A watcher buffers only the batches of its last read. One that falls behind the log is closed.

use std::sync::Arc;
use std::vec;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use tokio::sync::watch;

use super::{Batch, Error, Revision};

/// Batches in the order of their revisions. An error is the last item.
pub type Batches = BoxStream<'static, Result<Arc<Batch>, Error>>;

/// The log that a watcher reads.
#[async_trait]
pub(super) trait Log: Send + Sync {
    /// Returns the batches after a revision, oldest first, up to a limit.
    async fn after(&self, seen: Revision) -> Result<Vec<Arc<Batch>>, Error>;
}

/// Streams all batches after a revision. `newest` wakes the stream.
pub(super) fn batches(log: Arc<dyn Log>, newest: watch::Receiver<Revision>, from: Revision) -> Batches {
    let watcher = Watcher { log, newest, seen: from, pending: Vec::new().into_iter() };
    Box::pin(stream::try_unfold(watcher, |mut watcher| async move {
        let batch = watcher.next().await?;
        Ok(Some((batch, watcher)))
    }))
}

struct Watcher {
    log: Arc<dyn Log>,
    newest: watch::Receiver<Revision>,
    seen: Revision,
    pending: vec::IntoIter<Arc<Batch>>,
}

impl Watcher {
    async fn next(&mut self) -> Result<Arc<Batch>, Error> {
        loop {
            if let Some(batch) = self.pending.next() {
                self.seen = batch.revision;
                return Ok(batch);
            }
            if *self.newest.borrow_and_update() > self.seen {
                self.pending = self.log.after(self.seen).await?.into_iter();
                if self.pending.len() > 0 {
                    continue;
                }
            }
            self.newest.changed().await.map_err(|_| Error::Closed)?;
        }
    }
}
