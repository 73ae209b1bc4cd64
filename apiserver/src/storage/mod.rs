//! What the master must never forget: bytes under keys, and one revision that counts every write to any of them.
//!
//! A [`Store`] knows nothing of objects. It holds the newest value of each key and a bounded log of recent changes, from
//! which watches resume; older snapshots, selectors and slow clients are the business of the cache above it. Every store
//! passes the same contract, `tests/contract`.

mod decide;
pub mod embedded;
mod error;
pub mod etcd;
mod event;
mod history;
mod memory;
mod transaction;
mod watch;

#[cfg(test)]
mod tests;

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

/// Counts the writes of a store; the `resourceVersion` of the API. The first write of a fresh store is 2 or more.
pub type Revision = u64;

/// A door to where the truth is kept.
///
/// All methods are safe to drop half way; a commit dropped half way may or may not happen, as a whole.
#[async_trait]
pub trait Store: Send + Sync {
    /// The newest value of a key, and the revision of the store at that moment.
    ///
    /// # Errors
    /// When the store cannot be read; see [`Error::advice`].
    async fn get(&self, key: &str) -> Result<Found, Error>;

    /// The newest values of the keys that start with a prefix and come after that key, in the order of their bytes.
    ///
    /// A page ends after `limit` entries or when it holds enough bytes. Pages are pictures of different moments: to read
    /// all of them as one, watch from the revision of the first page after the last one.
    ///
    /// # Errors
    /// When the store cannot be read; see [`Error::advice`].
    async fn range(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page, Error>;

    /// Does all writes of a transaction, if everything it expects holds, or none. Durable when it returns.
    ///
    /// A transaction that changes nothing (it has no writes, or deletes what is not there) makes no revision.
    ///
    /// # Errors
    /// When nothing was written, or it is not known ([`Error::Unknown`]).
    async fn commit(&self, transaction: Transaction) -> Result<Outcome, Error>;

    /// The same for a write that says no more than that somebody is still there, and is said again soon: the store may
    /// answer before it is durable.
    ///
    /// Readers and watchers see it at once, in its order. What a crash may cost is the last of such writes: never one that
    /// a [`Self::commit`] came after, never anything else; and no revision that was shown is given again. A watch that goes
    /// on from the past may hear of the last of several to the same key alone.
    ///
    /// # Errors
    /// As of [`Self::commit`].
    async fn commit_late(&self, transaction: Transaction) -> Result<Outcome, Error>;

    /// Makes durable what was committed late; for whoever is about to end.
    ///
    /// # Errors
    /// When it cannot be written.
    async fn rest(&self) -> Result<(), Error>;

    /// Every write after that revision, in order, without gaps or repeats; a revision yet to come is waited for.
    ///
    /// A watcher never holds up a writer: one that takes so long that the log has moved past it is closed with
    /// [`Error::Compacted`], and every error is the end of the stream.
    ///
    /// # Errors
    /// [`Error::Compacted`] when the log does not reach back that far.
    async fn watch(&self, from: Revision) -> Result<Batches, Error>;

    /// Forgets the log up to a revision; watches go on from there or later.
    ///
    /// # Errors
    /// When that revision is yet to come, or the store cannot be written.
    async fn compact(&self, revision: Revision) -> Result<(), Error>;

    /// The revision of the last write.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn revision(&self) -> Result<Revision, Error>;

    /// Looks whether what is written is kept and can be written; asked by whoever wants to know, not all the time.
    ///
    /// # Errors
    /// [`Error::Displaced`] when the file was taken from its place, [`Error::Quota`] when there is no room for more, and what
    /// a look can meet.
    async fn look(&self) -> Result<(), Error>;

    /// Writes a consistent copy to a new file while the store goes on; [`embedded::restore`] reads it.
    ///
    /// # Errors
    /// [`Error::Exists`] when there is such a file, and what can go wrong with writing one.
    async fn backup(&self, path: &Path) -> Result<(), Error>;
}
