//! What is asked of a store and what it answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::{Error, Revision};

/// Longest key in bytes; group, resource, namespace and name stay far below.
pub const MAX_KEY_BYTES: usize = 4096;
/// Largest value in bytes; the API refuses bodies over 3 MiB, and an object grows a little when it is stored.
pub const MAX_VALUE_BYTES: usize = 8 * 1024 * 1024;
/// Largest transaction in bytes of keys and values, so that one never fills the log alone.
pub const MAX_TRANSACTION_BYTES: usize = 16 * 1024 * 1024;
/// Most compares and most writes of one transaction.
pub const MAX_PARTS: usize = 1024;

/// A page ends when it holds so many bytes of values, so that large objects do not add up.
pub(super) const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// The revision of a store that nothing was ever written to.
pub(super) const FIRST_REVISION: Revision = 1;

/// A value and when it came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Arc<str>,
    /// The value.
    pub value: Bytes,
    /// The revision that brought the key into being.
    pub created: Revision,
    /// The revision that wrote this value.
    pub modified: Revision,
}

/// What a key held, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The entry, if there was one.
    pub entry: Option<Entry>,
    /// The revision of the store at that moment.
    pub revision: Revision,
}

/// Entries in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The revision of the store at that moment.
    pub revision: Revision,
    /// True when there are more after the last of these.
    pub more: bool,
}

/// Writes that happen together, if everything that is expected holds.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// What must hold.
    pub compares: Vec<Compare>,
    /// What to write; a key at most once.
    pub writes: Vec<Write>,
}

/// What a transaction expects of a key.
#[derive(Clone, Debug)]
pub struct Compare {
    /// The key.
    pub key: Arc<str>,
    /// What is expected.
    pub expected: Expected,
}

/// A state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// There is no such key.
    Absent,
    /// Its value was written by that revision.
    Modified(Revision),
    /// Whatever there is.
    Any,
}

/// A write to a key.
#[derive(Clone, Debug)]
pub enum Write {
    /// Gives it a value.
    Put {
        /// The key.
        key: Arc<str>,
        /// The value.
        value: Bytes,
    },
    /// Takes it out.
    Delete {
        /// The key.
        key: Arc<str>,
    },
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Committed {
        /// The revision it made; that of the store when there was nothing to change.
        revision: Revision,
    },
    /// It did not, for this key is not as expected.
    Conflict {
        /// The key.
        key: Arc<str>,
        /// What it holds.
        current: Option<Entry>,
    },
}

impl Transaction {
    /// Puts a value where there is none.
    pub fn create(key: &str, value: Bytes) -> Self {
        Self::put(key, Expected::Absent, value)
    }

    /// Puts a value where that is expected.
    pub fn put(key: &str, expected: Expected, value: Bytes) -> Self {
        let key: Arc<str> = key.into();
        let compares = vec![Compare { key: key.clone(), expected }];
        Self { compares, writes: vec![Write::Put { key, value }] }
    }

    /// Takes out what is expected there.
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

    /// Says whether any store could ever take it.
    pub(super) fn check(&self) -> Result<(), Error> {
        let parts = self.compares.len().max(self.writes.len());
        if parts > MAX_PARTS {
            return invalid(format!("a transaction of {parts} parts is over {MAX_PARTS}: split it"));
        }
        let mut written = BTreeSet::new();
        for write in &self.writes {
            check_key(write.key())?;
            let (key, bytes) = (write.key(), write.value_bytes());
            if bytes > MAX_VALUE_BYTES {
                return invalid(format!(
                    "the value of {key} has {bytes} bytes, over {MAX_VALUE_BYTES}: make it smaller"
                ));
            }
            if !written.insert(key) {
                return invalid(format!("a transaction writes {key} twice: keep the last of them"));
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

/// The refusal to forget what has not happened.
pub(super) fn yet_to_come(asked: Revision, revision: Revision) -> Error {
    Error::Invalid(format!("revision {asked} is yet to come, the store is at {revision}: name an older one"))
}

fn check_key(key: &str) -> Result<(), Error> {
    match key.len() {
        0 => invalid("a key is empty: give it a name".to_owned()),
        1..=MAX_KEY_BYTES => Ok(()),
        bytes => invalid(format!("a key has {bytes} bytes, over {MAX_KEY_BYTES}: make it shorter")),
    }
}

fn invalid(why: String) -> Result<(), Error> {
    Err(Error::Invalid(why))
}
