//! The store in an etcd, for a control plane of several masters or one whose etcd others look after.
//!
//! Keys and values lie there as they are here, and etcd's revision is the store's. One call commits a transaction; one that
//! has no answer is tried again until it has, which is safe because every write of the API expects what it replaces, so
//! that it happens once at most. What even that cannot settle is [`Error::Unknown`].
//!
//! It is spoken to in gRPC over the HTTP/2 client that is in the binary anyway, with the few messages of `messages`.

mod backup;
mod channel;
mod compaction;
mod endpoint;
mod failure;
mod follow;
mod format;
mod grpc;
mod messages;
mod shared;
mod translate;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use prost::Message;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use self::channel::{Channel, Failure};
use self::messages::{
    COMPACT, CompactionRequest, CompactionResponse, RANGE, RangeRequest, RangeResponse, STATUS,
    StatusResponse, TXN, TxnResponse,
};
use self::shared::Shared;
use self::translate::Settled;
use super::transaction::{PAGE_BYTES, yet_to_come};
use super::{Batches, Entry, Error, Found, Limits, Outcome, Page, Revision, Store, Transaction};

pub use endpoint::{Certificates, Endpoint};

/// How long an etcd that does not answer is tried: longer than the election of a leader takes, shorter than clients wait.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(100);
/// Entries asked for at once; a few of them may be too large for one answer, then it is fewer.
const STEP: usize = 500;

/// A store in an etcd. Its watches end when this is dropped.
#[derive(Debug)]
pub struct Etcd {
    inner: Arc<Inner>,
    closing: watch::Sender<()>,
    compaction: AbortHandle,
}

/// What the store and what it does by itself have in common.
#[derive(Debug)]
struct Inner {
    channel: Channel,
    shared: Arc<Shared>,
}

/// Entries of one revision, and where to go on.
struct Part {
    entries: Vec<Entry>,
    revision: Revision,
    next: Option<Bytes>,
}

impl Etcd {
    /// Opens the store in the etcd of those members, once it answers.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the certificates cannot be used or another program's objects lie there, [`Error::Newer`], and
    /// [`Error::Unreachable`] when no member answers.
    pub async fn open(
        members: Vec<Endpoint>,
        certificates: &Certificates,
        limits: Limits,
    ) -> Result<Self, Error> {
        if members.is_empty() {
            return Err(Error::Invalid("no etcd is named: give at least one URL".to_owned()));
        }
        let has_tls = members.iter().any(Endpoint::is_tls);
        let tls = has_tls.then(|| endpoint::configure(certificates)).transpose();
        let channel = Channel::new(members, tls.map_err(Error::Invalid)?);
        let shared = Arc::new(Shared::new(channel.name(), limits));
        let inner = Arc::new(Inner { channel, shared });
        format::claim(&inner).await?;
        inner.revision().await?;
        let compaction = tokio::spawn(compaction::run(Arc::downgrade(&inner))).abort_handle();
        Ok(Self { inner, closing: watch::Sender::new(()), compaction })
    }
}

#[async_trait]
impl Store for Etcd {
    async fn get(&self, key: &str) -> Result<Found, Error> {
        let request = RangeRequest { key: Bytes::copy_from_slice(key.as_bytes()), ..RangeRequest::default() };
        let (mut response, revision) = self.inner.read(&request).await?;
        Ok(Found { entry: response.kvs.pop().and_then(translate::entry), revision })
    }

    async fn range(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page, Error> {
        let (mut key, end) = translate::bounds(prefix, after);
        let mut page = Page { entries: Vec::new(), revision: 0, more: true };
        let (mut at, mut bytes) = (None, 0);
        while page.more && (at.is_none() || (page.entries.len() < limit && bytes < PAGE_BYTES)) {
            // Whether there are more is told of one at least.
            let step = (limit - page.entries.len()).clamp(1, STEP);
            let part = match self.inner.page(key.clone(), end.clone(), step, at).await {
                // The log was cut off between two parts; the next page is a picture of another moment anyway.
                Err(Error::Compacted { .. }) if at.is_some() => break,
                part => part?,
            };
            at = Some(part.revision);
            page.revision = part.revision;
            page.more = part.next.is_some();
            key = part.next.unwrap_or_default();
            for entry in part.entries {
                if page.entries.len() >= limit || bytes >= PAGE_BYTES {
                    page.more = true;
                    break;
                }
                bytes += entry.value.len();
                page.entries.push(entry);
            }
        }
        Ok(page)
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, Error> {
        transaction.check()?;
        self.inner.commit(&transaction).await
    }

    async fn commit_late(&self, transaction: Transaction) -> Result<Outcome, Error> {
        self.commit(transaction).await
    }

    async fn rest(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn watch(&self, from: Revision) -> Result<Batches, Error> {
        let (oldest, _) = self.inner.shared.reach();
        if from < oldest {
            return Err(Error::Compacted { asked: from, oldest });
        }
        let shared = self.inner.shared.clone();
        follow::follow(&self.inner.channel, shared, self.closing.subscribe(), from).await
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.inner.compact(revision).await
    }

    async fn revision(&self) -> Result<Revision, Error> {
        self.inner.revision().await
    }

    async fn look(&self) -> Result<(), Error> {
        // Once, without patience: whoever looks looks again.
        match self.inner.channel.call::<StatusResponse>(STATUS, &()).await {
            Ok(status) => match failure::alarm(&status.errors) {
                Some(alarm) => {
                    Err(Error::Quota { store: self.inner.shared.store.clone(), reason: alarm.clone() })
                }
                None => Ok(()),
            },
            // Not everybody who may write may ask for this, and what stands before an etcd may not know it.
            Err(failed) if failure::is_in_vain(&failed) => Ok(()),
            Err(failed) => Err(self.inner.error(&failed)),
        }
    }

    async fn backup(&self, path: &Path) -> Result<(), Error> {
        backup::backup(&self.inner, path).await
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.compaction.abort();
    }
}

impl Inner {
    /// Asks what changes nothing, of one member after another until one answers.
    async fn ask<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<A, Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut tried = 0;
        loop {
            let failed = match self.channel.call(method, request).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            tried += 1;
            if failure::is_in_vain(&failed) || (tried >= self.channel.members() && Instant::now() >= deadline)
            {
                return Err(failed);
            }
            sleep(AGAIN).await;
        }
    }

    async fn read(&self, request: &RangeRequest) -> Result<(RangeResponse, Revision), Error> {
        let response: RangeResponse = self.ask(RANGE, request).await.map_err(|failed| self.error(&failed))?;
        let revision = translate::revision(response.header.as_ref());
        self.shared.note(revision);
        Ok((response, revision))
    }

    /// Up to so many entries, as of that revision where one is named.
    async fn page(&self, key: Bytes, end: Bytes, limit: usize, at: Option<Revision>) -> Result<Part, Error> {
        let mut limit = limit;
        loop {
            let request = RangeRequest {
                key: key.clone(),
                range_end: end.clone(),
                limit: i64::try_from(limit).unwrap_or(i64::MAX),
                revision: at.map_or(0, translate::number),
                keys_only: false,
            };
            let response: RangeResponse = match self.ask(RANGE, &request).await {
                Err(Failure::TooLarge) if limit > 1 => {
                    limit = (limit / 8).max(1);
                    continue;
                }
                Err(failed) if failure::is_compacted(&failed) => {
                    let asked = at.unwrap_or_default();
                    return Err(Error::Compacted { asked, oldest: asked + 1 });
                }
                answered => answered.map_err(|failed| self.error(&failed))?,
            };
            let revision = translate::revision(response.header.as_ref());
            self.shared.note(revision);
            let last = response.kvs.last().filter(|_| response.more).map(|last| after(&last.key));
            let entries = response.kvs.into_iter().filter_map(translate::entry).collect();
            return Ok(Part { entries, revision: at.unwrap_or(revision), next: last });
        }
    }

    async fn revision(&self) -> Result<Revision, Error> {
        let request =
            RangeRequest { key: Bytes::from_static(&[0]), keys_only: true, ..RangeRequest::default() };
        Ok(self.read(&request).await?.1)
    }

    async fn commit(&self, transaction: &Transaction) -> Result<Outcome, Error> {
        let request = translate::request(transaction);
        let deadline = Instant::now() + PATIENCE;
        // Why it is not known what became of an attempt.
        let mut doubt: Option<String> = None;
        loop {
            let failed = match self.channel.call::<TxnResponse>(TXN, &request).await {
                Ok(response) => {
                    self.shared.note(translate::revision(response.header.as_ref()));
                    return match translate::outcome(transaction, response, doubt.is_some()) {
                        Settled::Known(outcome) => Ok(outcome),
                        Settled::Unclear => {
                            Err(self.unknown(doubt.unwrap_or_else(|| "its answer is incomplete".to_owned())))
                        }
                    };
                }
                Err(failed) => failed,
            };
            let is_in_vain = failure::is_in_vain(&failed);
            if !is_in_vain && !failure::is_not_done(&failed) {
                doubt = Some(failure::reason(&failed));
            }
            let is_over = is_in_vain || Instant::now() >= deadline;
            match doubt {
                Some(reason) if is_over || !translate::happens_once(transaction) => {
                    return Err(self.unknown(reason));
                }
                None if is_over => return Err(self.error(&failed)),
                _ => sleep(AGAIN).await,
            }
        }
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let request = CompactionRequest { revision: translate::number(revision) };
        match self.ask::<CompactionResponse>(COMPACT, &request).await {
            Ok(_) => {}
            Err(failed) if failure::is_compacted(&failed) => return Ok(()),
            Err(failed) if failure::is_future(&failed) => {
                return Err(yet_to_come(revision, self.revision().await?));
            }
            Err(failed) => return Err(self.error(&failed)),
        }
        self.shared.note_compacted(revision);
        Ok(())
    }

    fn error(&self, failed: &Failure) -> Error {
        failure::error(&self.shared.store, failed)
    }

    fn unknown(&self, reason: String) -> Error {
        Error::Unknown { file: PathBuf::from(&self.shared.store), reason }
    }
}

/// The least key behind that one.
fn after(key: &[u8]) -> Bytes {
    let mut next = key.to_vec();
    next.push(0);
    next.into()
}
