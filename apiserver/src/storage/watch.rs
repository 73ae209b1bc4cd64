//! A watch as a stream: a place in the log that moves on.
//!
//! A watcher buffers nothing but the hand it was given last; it reads the log again when it is ready for more, and one
//! that the log has moved past is closed.

use std::sync::Arc;
use std::vec;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use tokio::sync::watch;

use super::{Batch, Error, Revision};

/// Batches in the order of their revisions; an error is the last item.
pub type Batches = BoxStream<'static, Result<Arc<Batch>, Error>>;

/// Where a watcher reads the log.
#[async_trait]
pub(super) trait Log: Send + Sync {
    /// What happened after that revision, oldest first, and not all of it at once.
    async fn after(&self, seen: Revision) -> Result<Vec<Arc<Batch>>, Error>;
}

/// Everything in the log after that revision, now and later; `newest` wakes the stream.
pub(super) fn batches(log: Arc<dyn Log>, newest: watch::Receiver<Revision>, from: Revision) -> Batches {
    let watcher = Watcher { log, newest, seen: from, hand: Vec::new().into_iter() };
    Box::pin(stream::try_unfold(watcher, |mut watcher| async move {
        let batch = watcher.next().await?;
        Ok(Some((batch, watcher)))
    }))
}

struct Watcher {
    log: Arc<dyn Log>,
    newest: watch::Receiver<Revision>,
    seen: Revision,
    hand: vec::IntoIter<Arc<Batch>>,
}

impl Watcher {
    async fn next(&mut self) -> Result<Arc<Batch>, Error> {
        loop {
            if let Some(batch) = self.hand.next() {
                self.seen = batch.revision;
                return Ok(batch);
            }
            if *self.newest.borrow_and_update() > self.seen {
                self.hand = self.log.after(self.seen).await?.into_iter();
                if self.hand.len() > 0 {
                    continue;
                }
            }
            self.newest.changed().await.map_err(|_| Error::Closed)?;
        }
    }
}
