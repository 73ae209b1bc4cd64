//! Durable key-value storage with one revision counter.
//!
//! A [`Store`] contains the newest value of each key and a bounded log, from which watches resume. The watch cache,
//! which uses a store, handles objects, selectors, snapshots and slow clients. All implementations pass the
//! contract in `tests/contract`.

mod decide;
pub mod embedded;
mod error;
pub mod etcd;
mod event;
mod history;
mod memory;
mod transaction;
mod watch;

use std::path::Path;

use async_trait::async_trait;

pub use embedded::Embedded;
pub use error::{Advice, Error};
pub use etcd::Etcd;
pub use event::{Batch, Change, Event};
pub use history::Limits;
pub use memory::Memory;
pub use transaction::{Compare, Entry, Expected, Found, Outcome, Page, Transaction, Write};
pub use transaction::{MAX_KEY_BYTES, MAX_PARTS, MAX_TRANSACTION_BYTES, MAX_VALUE_BYTES};
pub use watch::Batches;

/// The number of a write to the store; the `resourceVersion` of the API. The first write of a new store is 2 or
/// higher.
pub type Revision = u64;

/// Durable storage.
///
/// All methods are cancel safe. A cancelled commit takes effect either completely or not at all.
#[async_trait]
pub trait Store: Send + Sync {
    /// Reads the newest value of a key, and the current revision.
    ///
    /// # Errors
    /// If the store cannot be read; see [`Error::advice`].
    async fn get(&self, key: &str) -> Result<Found, Error>;

    /// Reads the newest values of keys with a prefix, after the key `after`, in byte order.
    ///
    /// A page ends after `limit` entries or a byte limit. Pages are read at different revisions. For a consistent
    /// state, the caller watches from the revision of the first page.
    ///
    /// # Errors
    /// If the store cannot be read; see [`Error::advice`].
    async fn range(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page, Error>;

    /// Applies all writes of a transaction if all expectations hold, otherwise none. They are durable when it
    /// returns.
    ///
    /// A transaction without an effect creates no revision.
    ///
    /// # Errors
    /// If nothing was written, or the outcome is unknown ([`Error::Unknown`]).
    async fn commit(&self, transaction: Transaction) -> Result<Outcome, Error>;

    /// Does the same as [`Self::commit`], for heartbeats, which are repeated soon. May return before the write is
    /// durable.
    ///
    /// Readers and watchers see the write at once and in order. A crash may lose the latest deferred writes, but
    /// none that precedes a [`Self::commit`], and no revision is used twice. A watch that resumes may see only the
    /// last of several deferred writes to a key.
    ///
    /// # Errors
    /// The same as [`Self::commit`].
    async fn commit_deferred(&self, transaction: Transaction) -> Result<Outcome, Error>;

    /// Persists deferred writes before shutdown.
    ///
    /// # Errors
    /// If the changes cannot be written.
    async fn flush(&self) -> Result<(), Error>;

    /// Streams all events after a revision, in order, complete and without repetition. If the revision is in the
    /// future, the stream starts when it is reached.
    ///
    /// Watchers never block writers. One that falls behind the log is closed with [`Error::Compacted`]. An error
    /// ends the stream.
    ///
    /// # Errors
    /// [`Error::Compacted`] if the log starts later.
    async fn watch(&self, from: Revision) -> Result<Batches, Error>;

    /// Compacts the log up to a revision.
    ///
    /// # Errors
    /// If the revision is in the future, or the store cannot be written.
    async fn compact(&self, revision: Revision) -> Result<(), Error>;

    /// Reads the current revision.
    ///
    /// # Errors
    /// If the store cannot be reached.
    async fn revision(&self) -> Result<Revision, Error>;

    /// Checks that the store is intact and writable.
    ///
    /// # Errors
    /// [`Error::Displaced`] if the file was removed or replaced, [`Error::Quota`] if etcd is full, and errors of
    /// the check itself.
    async fn check_health(&self) -> Result<(), Error>;

    /// Writes a consistent copy to a new file while the store is in use. [`embedded::restore`] reads the copy.
    ///
    /// # Errors
    /// [`Error::Exists`] if the file exists, and file errors.
    async fn backup(&self, path: &Path) -> Result<(), Error>;
}

#[cfg(test)]
mod tests {
    //! Tests of all stores and of shared code.

    pub(super) mod contract;
    pub(super) mod decide;
    mod history;
    mod late;

    use std::sync::Arc;

    use super::{Limits, Memory};

    #[tokio::test]
    async fn memory_store_fulfils_the_storage_contract() {
        contract::contract(async |limits: Limits| Arc::new(Memory::new(limits)) as Arc<dyn super::Store>)
            .await;
    }
}
