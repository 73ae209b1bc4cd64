//! Events of committed transactions.

use std::sync::Arc;

use bytes::Bytes;

use super::{Entry, Revision};

/// All events of one transaction, at its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Revision of the transaction.
    pub revision: Revision,
    /// Events, at most one per key, in transaction order.
    pub events: Vec<Event>,
}

/// The change of one key by a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The changed key.
    pub key: Arc<str>,
    /// What happened to the key.
    pub change: Change,
    /// Revision of the previous value, if any.
    pub previous: Option<Revision>,
}

/// Kind of change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key was created or updated.
    Put {
        /// New value.
        value: Bytes,
        /// Creation revision of the key.
        created: Revision,
    },
    /// The key was deleted.
    Delete {
        /// The last value; empty in logs that older versions wrote.
        last: Bytes,
    },
}

/// Estimated memory overhead of a batch or event.
const OVERHEAD_BYTES: usize = 64;

impl Batch {
    /// Estimated memory use in bytes.
    pub(super) fn weight(&self) -> usize {
        OVERHEAD_BYTES + self.events.iter().map(Event::weight).sum::<usize>()
    }
}

impl Event {
    /// The entry after the event at a revision, or `None` for a deletion.
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
