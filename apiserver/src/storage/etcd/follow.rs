//! A watch of an etcd: its events put together by revision, handed over as long as the log reaches back that far.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::stream;
use tokio::sync::watch;

use super::channel::{Answers, Channel};
use super::failure;
use super::messages::{WATCH, WatchCreateRequest, WatchRequest, WatchResponse};
use super::shared::Shared;
use super::translate::{Forgotten, bounds, event, number};
use crate::storage::{Batch, Batches, Error, Revision};

/// Begins to follow everything after a revision. Nothing waits in memory but what etcd sent last: who reads slowly is
/// sent no more, and who reads so slowly that the log has moved past him is closed.
pub(super) async fn follow(
    channel: &Channel,
    shared: Arc<Shared>,
    closing: watch::Receiver<()>,
    from: Revision,
) -> Result<Batches, Error> {
    // All keys, not ours alone: the revisions that others make count for everyone who waits for one.
    // The one key before all of them is written once, at a revision that nobody follows from.
    let (key, range_end) = bounds("", None);
    // From the revision that was seen last: etcd begins at the one its log was cut off after, but has lost what that one
    // took out. A log cut off later than it is told of, and what is known already is left out.
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
    let reader = Reader { seen: from, told: from, open: None, ready: VecDeque::new() };
    let watch = Watch { answers, shared, closing, reader };
    Ok(Box::pin(stream::try_unfold(watch, |mut watch| async move {
        let batch = watch.next().await?;
        Ok(Some((batch, watch)))
    })))
}

struct Watch {
    answers: Answers<WatchResponse>,
    shared: Arc<Shared>,
    /// Its sender goes when the store does.
    closing: watch::Receiver<()>,
    reader: Reader,
}

impl Watch {
    async fn next(&mut self) -> Result<Arc<Batch>, Error> {
        loop {
            let (oldest, newest) = self.shared.reach();
            if self.reader.seen < oldest {
                return Err(Error::Compacted { asked: self.reader.seen, oldest });
            }
            if let Some(batch) = self.reader.take() {
                return Ok(batch);
            }
            // What was answered before the store closed is told still.
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

/// Puts batches together from what etcd tells.
#[derive(Debug)]
pub(super) struct Reader {
    /// The revision handed over last.
    pub(super) seen: Revision,
    /// The last one that was told as a whole.
    pub(super) told: Revision,
    /// One of which more may come.
    pub(super) open: Option<Batch>,
    pub(super) ready: VecDeque<Arc<Batch>>,
}

impl Reader {
    /// Hands over the next whole batch.
    pub(super) fn take(&mut self) -> Option<Arc<Batch>> {
        let batch = self.ready.pop_front()?;
        self.seen = batch.revision;
        Some(batch)
    }

    /// Takes in what etcd tells.
    pub(super) fn read(&mut self, answer: WatchResponse, store: &str) -> Result<(), Error> {
        if let Ok(oldest @ 1..) = Revision::try_from(answer.compact_revision) {
            return Err(Error::Compacted { asked: self.seen, oldest });
        }
        if answer.canceled {
            return Err(Error::Refused { store: store.to_owned(), reason: answer.cancel_reason });
        }
        for told in answer.events.into_iter().filter_map(event) {
            let (revision, event) = match told {
                Ok((revision, _)) | Err(Forgotten { revision }) if revision <= self.told => continue,
                Ok(told) => told,
                // Whoever reads the newest values anew misses nothing.
                Err(Forgotten { revision }) => {
                    return Err(Error::Compacted { asked: self.seen, oldest: revision });
                }
            };
            if self.open.as_ref().is_some_and(|open| open.revision != revision) {
                self.close();
            }
            let open = self.open.get_or_insert_with(|| Batch { revision, events: Vec::new() });
            open.events.extend(event);
        }
        // A large answer comes in parts, and a part may end within a revision.
        if !answer.fragment {
            self.close();
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some(batch) = self.open.take() {
            self.told = batch.revision;
            self.ready.push_back(Arc::new(batch));
        }
    }
}
