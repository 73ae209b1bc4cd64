//! Deferred writes, which are answered before they are on disk. Memory keeps the newest value of each key until the
//! next commit persists all of them.
//!
//! A deferred write replaces the value of one existing key, so it never adds or removes a key. Readers of the file
//! check the deferred writes for a newer value.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::storage::{Batch, Change, Entry, Event, Limits, Revision};

/// Maximum delay of a deferred write, which is the renewal interval of a node lease. A shorter delay would increase
/// the number of commits, a longer one the loss after a crash.
pub(super) const DEFER_LIMIT: Duration = Duration::from_secs(10);

/// Number of revisions that are reserved at a time for deferred writes. After a crash the store skips all reserved
/// revisions, because clients may have seen any of them. Such clients list again.
pub(super) const RESERVE: Revision = 10_000;

/// Deferred writes of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Deferred {
    newest: BTreeMap<Arc<str>, Write>,
    writes: usize,
    bytes: usize,
    revision: Revision,
}

/// Latest deferred write of a key.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// Revision of the value in the file.
    pub(super) on_disk: Revision,
    /// The deferred write.
    pub(super) batch: Arc<Batch>,
}

/// Limit of deferred writes. It is half of the history in memory, which must contain all of them.
pub(super) fn most(recent: Limits) -> Limits {
    Limits { revisions: (recent.revisions / 2).max(1), bytes: recent.bytes / 2 }
}

/// The event of a batch that may be deferred. `None` unless the batch only replaces the value of one existing key.
pub(super) fn only_event(batch: &Batch) -> Option<(&Event, Revision)> {
    match batch.events.as_slice() {
        [event @ Event { change: Change::Put { .. }, previous: Some(previous), .. }] => {
            Some((event, *previous))
        }
        _ => None,
    }
}

impl Deferred {
    pub(super) fn is_empty(&self) -> bool {
        self.writes == 0
    }

    /// Revision of the last deferred write.
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    /// The deferred writes, if they are newer than the file at this revision.
    pub(super) fn beside(&self, file: Revision) -> Option<&Self> {
        (self.revision > file).then_some(self)
    }

    /// The deferred value of a key.
    pub(super) fn entry(&self, key: &str) -> Option<Entry> {
        let write = self.newest.get(key)?;
        write.batch.events.first()?.entry(write.batch.revision)
    }

    /// The latest deferred write of each key, in arbitrary order.
    pub(super) fn writes(&self) -> impl Iterator<Item = &Write> {
        self.newest.values()
    }

    /// Adds a write. Returns false, without a change, if the write cannot be deferred.
    pub(super) fn add(&mut self, batch: &Arc<Batch>) -> bool {
        let Some((event, previous)) = only_event(batch) else { return false };
        let on_disk = self.newest.get(&event.key).map_or(previous, |before| before.on_disk);
        self.newest.insert(event.key.clone(), Write { on_disk, batch: batch.clone() });
        self.writes += 1;
        self.bytes += batch.weight();
        self.revision = batch.revision;
        true
    }

    /// True if these additional writes stay within the limit.
    pub(super) fn has_room_for(&self, more: &Self, most: Limits) -> bool {
        self.writes + more.writes <= most.revisions && self.bytes + more.bytes <= most.bytes
    }
}
