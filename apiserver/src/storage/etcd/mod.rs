//! etcd store, for several control planes or an etcd that is managed elsewhere.
//!
//! Keys, values and revisions are those of etcd. One call commits a transaction. A call without a response is
//! retried. This is safe, because API writes name the revision that they replace, and so take effect at most once.
//! An outcome that stays unclear is [`Error::Unknown`].
//!
//! gRPC uses the HTTP/2 client that the program already contains, with the messages in `messages`.

mod backup;
mod channel;
mod compaction;
mod endpoint;
mod failure;
mod format;
mod grpc;
mod messages;
mod tls_alert;
mod translate;
mod watcher;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use prost::Message;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use self::channel::{Channel, Failure};
use self::compaction::Shared;
use self::failure::etcd_error;
use self::grpc::EtcdError;
use self::messages::{
    COMPACT, CompactionRequest, CompactionResponse, RANGE, RangeRequest, RangeResponse, STATUS,
    StatusResponse, TXN, TxnResponse,
};
use self::translate::CommitResult;
use super::transaction::{PAGE_BYTES, future_revision};
use super::{Batches, Entry, Error, Found, Limits, Outcome, Page, Revision, Store, Transaction};
use crate::tasks::OwnedTask;

pub use endpoint::{Certificates, Endpoint};

/// How long calls are retried: longer than a leader election of etcd, shorter than client timeouts.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay between retries.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of entries per request. It is reduced if the response would be too large.
const MAX_RANGE_ENTRIES: usize = 500;

/// The etcd store. Its watches end when it is dropped.
#[derive(Debug)]
pub struct Etcd {
    inner: Arc<Inner>,
    closing: watch::Sender<()>,
    _compaction: OwnedTask,
}

/// State that the store shares with background tasks.
#[derive(Debug)]
struct Inner {
    channel: Channel,
    shared: Arc<Shared>,
}

/// Entries of one revision, and the key after which to continue.
struct Part {
    entries: Vec<Entry>,
    revision: Revision,
    next: Option<Bytes>,
}

impl Etcd {
    /// Connects to these members.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the certificates are unusable or etcd contains objects of another program,
    /// [`Error::Newer`], and [`Error::Unreachable`] if no member answers.
    pub async fn open(
        members: Vec<Endpoint>,
        certificates: &Certificates,
        limits: Limits,
    ) -> Result<Self, Error> {
        if members.is_empty() {
            return Err(Error::Invalid("no etcd endpoint: specify at least one URL".to_owned()));
        }
        let has_tls = members.iter().any(Endpoint::is_tls);
        let tls = has_tls.then(|| endpoint::configure(certificates)).transpose();
        let channel = Channel::new(members, tls.map_err(Error::Invalid)?);
        let shared = Arc::new(Shared::new(channel.name(), limits));
        let inner = Arc::new(Inner { channel, shared });
        format::claim(&inner).await?;
        inner.revision().await?;
        let compaction = compaction::run(Arc::downgrade(&inner));
        let _compaction = OwnedTask::supervised("etcd compaction", compaction);
        Ok(Self { inner, closing: watch::Sender::new(()), _compaction })
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
            // `more` is only reported for a limit of at least one.
            let step = (limit - page.entries.len()).clamp(1, MAX_RANGE_ENTRIES);
            let part = match self.inner.page(key.clone(), end.clone(), step, at).await {
                // etcd was compacted between two parts. Pages need not share a revision, so the page ends
                // here.
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

    async fn commit_deferred(&self, transaction: Transaction) -> Result<Outcome, Error> {
        self.commit(transaction).await
    }

    async fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn watch(&self, from: Revision) -> Result<Batches, Error> {
        let (oldest, _) = self.inner.shared.revision_range();
        if from < oldest {
            return Err(Error::Compacted { requested: from, oldest });
        }
        let shared = self.inner.shared.clone();
        watcher::start(&self.inner.channel, shared, self.closing.subscribe(), from).await
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.inner.compact(revision).await
    }

    async fn revision(&self) -> Result<Revision, Error> {
        self.inner.revision().await
    }

    async fn check_health(&self) -> Result<(), Error> {
        // Not retried: the caller repeats the check.
        match self.inner.channel.call::<StatusResponse>(STATUS, &()).await {
            Ok(status) => match failure::alarm(&status.errors) {
                Some(alarm) => {
                    Err(Error::Quota { store: self.inner.shared.store.clone(), reason: alarm.clone() })
                }
                None => Ok(()),
            },
            // The client may lack the permission for this call, and an etcd proxy may not support it.
            Err(failed) if failure::is_permanent(&failed) => Ok(()),
            Err(failed) => Err(self.inner.error(&failed)),
        }
    }

    async fn backup(&self, path: &Path) -> Result<(), Error> {
        backup::backup(&self.inner, path).await
    }
}

impl Inner {
    /// Calls a read-only or idempotent method, and retries it on all members.
    async fn send_request<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<A, Failure> {
        let deadline = Instant::now() + RETRY_TIMEOUT;
        let mut tried = 0;
        loop {
            let failed = match self.channel.call(method, request).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            tried += 1;
            if failure::is_permanent(&failed)
                || (tried >= self.channel.members() && Instant::now() >= deadline)
            {
                return Err(failed);
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    async fn read(&self, request: &RangeRequest) -> Result<(RangeResponse, Revision), Error> {
        let response: RangeResponse =
            self.send_request(RANGE, request).await.map_err(|failed| self.error(&failed))?;
        let revision = translate::revision(response.header.as_ref());
        self.shared.record_revision(revision);
        Ok((response, revision))
    }

    /// Reads up to `limit` entries, at the revision `at` if it is given.
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
            let response: RangeResponse = match self.send_request(RANGE, &request).await {
                Err(Failure::TooLarge) if limit > 1 => {
                    limit = (limit / 8).max(1);
                    continue;
                }
                Err(failed) if etcd_error(&failed) == Some(EtcdError::Compacted) => {
                    let requested = at.unwrap_or_default();
                    return Err(Error::Compacted { requested, oldest: requested + 1 });
                }
                answered => answered.map_err(|failed| self.error(&failed))?,
            };
            let revision = translate::revision(response.header.as_ref());
            self.shared.record_revision(revision);
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
        let deadline = Instant::now() + RETRY_TIMEOUT;
        // Reason why the outcome of an earlier attempt is unknown.
        let mut doubt: Option<String> = None;
        loop {
            let failed = match self.channel.call::<TxnResponse>(TXN, &request).await {
                Ok(response) => {
                    self.shared.record_revision(translate::revision(response.header.as_ref()));
                    return match translate::outcome(transaction, response, doubt.is_some()) {
                        CommitResult::Known(outcome) => Ok(outcome),
                        CommitResult::Unclear => {
                            Err(self.unknown(doubt.unwrap_or_else(|| "its answer is incomplete".to_owned())))
                        }
                    };
                }
                Err(failed) => failed,
            };
            let is_permanent = failure::is_permanent(&failed);
            if !is_permanent && !failure::is_unapplied(&failed) {
                doubt = Some(failure::reason(&failed));
            }
            let is_over = is_permanent || Instant::now() >= deadline;
            match doubt {
                Some(reason) if is_over || !translate::is_idempotent(transaction) => {
                    return Err(self.unknown(reason));
                }
                None if is_over => return Err(self.error(&failed)),
                _ => sleep(RETRY_INTERVAL).await,
            }
        }
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let request = CompactionRequest { revision: translate::number(revision) };
        match self.send_request::<CompactionResponse>(COMPACT, &request).await {
            Ok(_) => {}
            Err(failed) => match etcd_error(&failed) {
                Some(EtcdError::Compacted) => return Ok(()),
                Some(EtcdError::FutureRevision) => {
                    return Err(future_revision(revision, self.revision().await?));
                }
                Some(EtcdError::NoSpace) | None => return Err(self.error(&failed)),
            },
        }
        self.shared.record_compaction(revision);
        Ok(())
    }

    fn error(&self, failed: &Failure) -> Error {
        failure::error(&self.shared.store, failed)
    }

    fn unknown(&self, reason: String) -> Error {
        Error::Unknown { file: PathBuf::from(&self.shared.store), reason }
    }
}

/// The smallest key after `key`.
fn after(key: &[u8]) -> Bytes {
    let mut next = key.to_vec();
    next.push(0);
    next.into()
}

#[cfg(test)]
mod tests {
    //! Tests of the etcd store beyond the contract.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    mod bed;
    mod endpoint;
    mod grpc;
    mod real;
    mod translate;
    mod watcher;
}
