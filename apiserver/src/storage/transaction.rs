//! Transactions and query results of a store.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::{Error, Revision};

/// Maximum size of a key in bytes. Keys of objects are far smaller.
pub const MAX_KEY_BYTES: usize = 4096;
/// Maximum size of a value in bytes. The API rejects bodies over 3 MiB, and stored objects are slightly larger than
/// bodies.
pub const MAX_VALUE_BYTES: usize = 8 * 1024 * 1024;
/// Maximum size of a transaction in bytes, so that one transaction never fills the log.
pub const MAX_TRANSACTION_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of compares, and of writes, per transaction.
pub const MAX_PARTS: usize = 1024;

/// Maximum bytes of values per page.
pub(super) const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Revision of an empty store.
pub(super) const FIRST_REVISION: Revision = 1;

/// A key with its value and revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Key of the entry.
    pub key: Arc<str>,
    /// Value of the key.
    pub value: Bytes,
    /// The revision at which the key was created.
    pub created: Revision,
    /// The revision at which the key was last modified.
    pub modified: Revision,
}

/// Result of a get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The entry, if it exists.
    pub entry: Option<Entry>,
    /// Current revision.
    pub revision: Revision,
}

/// A page of entries, in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Entries of the page.
    pub entries: Vec<Entry>,
    /// Current revision.
    pub revision: Revision,
    /// True if there are further entries.
    pub more: bool,
}

/// Writes that are applied atomically if all expectations hold.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// The expectations of the transaction.
    pub compares: Vec<Compare>,
    /// The writes, at most one per key.
    pub writes: Vec<Write>,
}

/// The expectation for a key.
#[derive(Clone, Debug)]
pub struct Compare {
    /// The key that has the expectation.
    pub key: Arc<str>,
    /// The expected state of the key.
    pub expected: Expected,
}

/// The expected state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The key does not exist.
    Absent,
    /// The value was written at this revision.
    Modified(Revision),
    /// Any state.
    Any,
}

/// A write of a transaction.
#[derive(Clone, Debug)]
pub enum Write {
    /// Sets a value.
    Put {
        /// The key to write.
        key: Arc<str>,
        /// The new value.
        value: Bytes,
    },
    /// Deletes the key.
    Delete {
        /// The key to delete.
        key: Arc<str>,
    },
}

/// Result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The writes were applied.
    Committed {
        /// The new revision. It is the current one if nothing changed.
        revision: Revision,
    },
    /// An expectation failed; nothing was applied.
    Conflict {
        /// The key whose expectation failed.
        key: Arc<str>,
        /// Current entry of the key.
        current: Option<Entry>,
    },
}

impl Transaction {
    /// Creates a key.
    pub fn create(key: &str, value: Bytes) -> Self {
        Self::put(key, Expected::Absent, value)
    }

    /// Sets a value if the expectation holds.
    pub fn put(key: &str, expected: Expected, value: Bytes) -> Self {
        let key: Arc<str> = key.into();
        let compares = vec![Compare { key: key.clone(), expected }];
        Self { compares, writes: vec![Write::Put { key, value }] }
    }

    /// Deletes a key if the expectation holds.
    pub fn delete(key: &str, expected: Expected) -> Self {
        let key: Arc<str> = key.into();
        let compares = vec![Compare { key: key.clone(), expected }];
        Self { compares, writes: vec![Write::Delete { key }] }
    }

    /// Bytes of all keys and values.
    pub(super) fn bytes(&self) -> usize {
        let compares: usize = self.compares.iter().map(|compare| compare.key.len()).sum();
        let writes: usize = self.writes.iter().map(|write| write.key().len() + write.value_bytes()).sum();
        compares + writes
    }

    /// Checks the limits that all stores share.
    pub(super) fn check(&self) -> Result<(), Error> {
        let parts = self.compares.len().max(self.writes.len());
        if parts > MAX_PARTS {
            return invalid(format!("a transaction has {parts} parts, more than {MAX_PARTS}: split it"));
        }
        let mut written = BTreeSet::new();
        for write in &self.writes {
            check_key(write.key())?;
            let (key, bytes) = (write.key(), write.value_bytes());
            if bytes > MAX_VALUE_BYTES {
                return invalid(format!(
                    "the value of {key} has {bytes} bytes, more than {MAX_VALUE_BYTES}: make it smaller"
                ));
            }
            if !written.insert(key) {
                return invalid(format!("a transaction writes {key} twice: keep only the last write"));
            }
        }
        for compare in &self.compares {
            check_key(&compare.key)?;
        }
        let bytes = self.bytes();
        if bytes > MAX_TRANSACTION_BYTES {
            return invalid(format!(
                "a transaction has {bytes} bytes, over {MAX_TRANSACTION_BYTES}: split it"
            ));
        }
        Ok(())
    }
}

impl Write {
    pub(super) fn key(&self) -> &Arc<str> {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }

    fn value_bytes(&self) -> usize {
        match self {
            Self::Put { value, .. } => value.len(),
            Self::Delete { .. } => 0,
        }
    }
}

impl Expected {
    pub(super) fn holds(self, current: Option<&Entry>) -> bool {
        match self {
            Self::Absent => current.is_none(),
            Self::Modified(revision) => current.is_some_and(|entry| entry.modified == revision),
            Self::Any => true,
        }
    }
}

/// The error for a revision in the future.
pub(super) fn future_revision(requested: Revision, revision: Revision) -> Error {
    Error::Invalid(format!(
        "revision {requested} is in the future, the store is at {revision}: specify an older one"
    ))
}

fn check_key(key: &str) -> Result<(), Error> {
    match key.len() {
        0 => invalid("a key is empty: use a key with at least one character".to_owned()),
        1..=MAX_KEY_BYTES => Ok(()),
        bytes => invalid(format!("a key has {bytes} bytes, more than {MAX_KEY_BYTES}: make it shorter")),
    }
}

fn invalid(why: String) -> Result<(), Error> {
    Err(Error::Invalid(why))
}
