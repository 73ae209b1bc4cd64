//! Watches an etcd, and groups its events by revision.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream;
use tokio::sync::watch;

use super::channel::{Answers, Channel};
use super::compaction::Shared;
use super::failure;
use super::messages::{WATCH, WatchCreateRequest, WatchRequest, WatchResponse};
use super::translate::{Forgotten, bounds, event, number};
use crate::storage::{Batch, Batches, Error, Revision};

/// Starts a watch after a revision. It buffers only the last response, so a slow reader blocks the stream. A watch
/// that falls behind the log is closed.
pub(super) async fn start(
    channel: &Channel,
    shared: Arc<Shared>,
    closing: watch::Receiver<()>,
    from: Revision,
) -> Result<Batches, Error> {
    // All keys, because other clients' revisions must be observed, too. The format key, which sorts before
    // them, is written only once.
    let (key, range_end) = bounds("", None);
    // Starts at the last seen revision. If etcd has compacted it, events of that revision may be missing, but
    // they are known and skipped.
    let create = WatchCreateRequest {
        key,
        range_end,
        start_revision: number(from.max(1)),
        prev_kv: true,
        fragment: true,
    };
    let request = WatchRequest { create: Some(create) };
    let begun = channel.stream(WATCH, &request).await;
    let answers = begun.map_err(|reason| failure::error(&shared.store, &reason))?;
    let reader = Reader { seen: from, delivered: from, open: None, ready: VecDeque::new() };
    let watch = Watch { answers, shared, closing, reader };
    Ok(Box::pin(stream::try_unfold(watch, |mut watch| async move {
        let batch = watch.next().await?;
        Ok(Some((batch, watch)))
    })))
}

struct Watch {
    answers: Answers<WatchResponse>,
    shared: Arc<Shared>,
    /// A channel that signals when the store is dropped.
    closing: watch::Receiver<()>,
    reader: Reader,
}

impl Watch {
    async fn next(&mut self) -> Result<Arc<Batch>, Error> {
        loop {
            let (oldest, newest) = self.shared.revision_range();
            if self.reader.seen < oldest {
                return Err(Error::Compacted { requested: self.reader.seen, oldest });
            }
            if let Some(batch) = self.reader.take() {
                return Ok(batch);
            }
            // Responses received before the store closed are still delivered.
            let is_closed = self.closing.has_changed().is_err();
            if is_closed && self.reader.seen >= newest {
                return Err(Error::Closed);
            }
            let answer = tokio::select! {
                answer = self.answers.next() => answer,
                _ = self.closing.changed(), if !is_closed => continue,
            };
            let answer = answer.map_err(|reason| failure::error(&self.shared.store, &reason))?;
            self.reader.read(answer, &self.shared.store)?;
        }
    }
}

/// Assembles batches from watch responses.
#[derive(Debug)]
pub(super) struct Reader {
    /// The last revision that was returned.
    pub(super) seen: Revision,
    /// The last complete revision.
    pub(super) delivered: Revision,
    /// The batch to which events may still be added.
    pub(super) open: Option<Batch>,
    pub(super) ready: VecDeque<Arc<Batch>>,
}

impl Reader {
    /// Returns the next complete batch.
    pub(super) fn take(&mut self) -> Option<Arc<Batch>> {
        let batch = self.ready.pop_front()?;
        self.seen = batch.revision;
        Some(batch)
    }

    /// Adds a watch response.
    pub(super) fn read(&mut self, answer: WatchResponse, store: &str) -> Result<(), Error> {
        if let Ok(oldest @ 1..) = Revision::try_from(answer.compact_revision) {
            return Err(Error::Compacted { requested: self.seen, oldest });
        }
        if answer.canceled {
            return Err(Error::Refused { store: store.to_owned(), reason: answer.cancel_reason });
        }
        for delivered in answer.events.into_iter().filter_map(event) {
            let (revision, event) = match delivered {
                Ok((revision, _)) | Err(Forgotten { revision }) if revision <= self.delivered => continue,
                Ok(delivered) => delivered,
                // A caller that lists again misses nothing.
                Err(Forgotten { revision }) => {
                    return Err(Error::Compacted { requested: self.seen, oldest: revision });
                }
            };
            if self.open.as_ref().is_some_and(|open| open.revision != revision) {
                self.close();
            }
            let open = self.open.get_or_insert_with(|| Batch { revision, events: Vec::new() });
            open.events.extend(event);
        }
        // A response may be fragmented within a revision.
        if !answer.fragment {
            self.close();
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some(batch) = self.open.take() {
            self.delivered = batch.revision;
            self.ready.push_back(Arc::new(batch));
        }
    }
}
