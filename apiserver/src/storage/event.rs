//! What a committed write did, as watchers are told.

use std::sync::Arc;

use bytes::Bytes;

use super::{Entry, Revision};

/// Everything one transaction did, under the one revision it made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The revision.
    pub revision: Revision,
    /// One event a key, in the order of the transaction.
    pub events: Vec<Event>,
}

/// What happened to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The key.
    pub key: Arc<str>,
    /// What happened.
    pub change: Change,
    /// The revision of the value that stood there before, if one did.
    pub previous: Option<Revision>,
}

/// What a write did to its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has this value now.
    Put {
        /// The value.
        value: Bytes,
        /// The revision that brought the key into being.
        created: Revision,
    },
    /// It is gone.
    Delete {
        /// The value that it had; empty in a log that was written before deletions said so.
        last: Bytes,
    },
}

/// What a batch and an event cost beside their keys and values.
const OVERHEAD_BYTES: usize = 64;

impl Batch {
    /// Bytes that it holds in memory, nearly.
    pub(super) fn weight(&self) -> usize {
        OVERHEAD_BYTES + self.events.iter().map(Event::weight).sum::<usize>()
    }
}

impl Event {
    /// The entry that the event of that revision left behind; none when it was a deletion.
    pub fn entry(&self, revision: Revision) -> Option<Entry> {
        match &self.change {
            Change::Put { value, created } => Some(Entry {
                key: self.key.clone(),
                value: value.clone(),
                created: *created,
                modified: revision,
            }),
            Change::Delete { .. } => None,
        }
    }

    fn weight(&self) -> usize {
        let value = match &self.change {
            Change::Put { value, .. } | Change::Delete { last: value } => value.len(),
        };
        OVERHEAD_BYTES + self.key.len() + value
    }
}
