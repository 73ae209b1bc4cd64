//! What was answered before it is on the disk: the newest value of each key, until the next commit takes all of it along.
//!
//! A late write gives one key that is there another value and does nothing else, so that what is late never adds a key or
//! takes one away: whoever reads the file looks here for a newer value, and that is all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::storage::{Batch, Change, Entry, Event, Limits, Revision};

/// What is late is on the disk after so long at most: the time between two renewals of a node's lease. Half of it would
/// write twice as much, twice of it would lose twice as much.
pub(super) const LATE_FOR: Duration = Duration::from_secs(10);

/// Revisions set aside at a time for writes that are answered before they are on the disk. A store that was killed goes on
/// after all of them, because any may have been shown: a client that saw one lists again.
pub(super) const RESERVE: Revision = 10_000;

/// The late writes of a store.
#[derive(Clone, Debug, Default)]
pub(super) struct Late {
    newest: BTreeMap<Arc<str>, Write>,
    writes: usize,
    bytes: usize,
    revision: Revision,
}

/// The last late write of a key.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// The revision of the value in the file.
    pub(super) on_disk: Revision,
    /// What it did.
    pub(super) batch: Arc<Batch>,
}

/// How much may be late: half of what watchers find in memory, where all of it must be until the file has it.
pub(super) fn most(recent: Limits) -> Limits {
    Limits { revisions: (recent.revisions / 2).max(1), bytes: recent.bytes / 2 }
}

/// The event of a batch that may be late; `None` when it does anything but give one key that is there another value.
pub(super) fn only_event(batch: &Batch) -> Option<(&Event, Revision)> {
    match batch.events.as_slice() {
        [event @ Event { change: Change::Put { .. }, previous: Some(previous), .. }] => {
            Some((event, *previous))
        }
        _ => None,
    }
}

impl Late {
    pub(super) fn is_empty(&self) -> bool {
        self.writes == 0
    }

    /// The revision of the last of them.
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    /// What is late beside a file that has come to that revision; `None` when the file has all of it already.
    pub(super) fn beside(&self, file: Revision) -> Option<&Self> {
        (self.revision > file).then_some(self)
    }

    /// What a key holds, if it was written late.
    pub(super) fn entry(&self, key: &str) -> Option<Entry> {
        let write = self.newest.get(key)?;
        write.batch.events.first()?.entry(write.batch.revision)
    }

    /// The last write of each key, in no order that means anything.
    pub(super) fn writes(&self) -> impl Iterator<Item = &Write> {
        self.newest.values()
    }

    /// Takes one more; false, and nothing is changed, when it may not be late.
    pub(super) fn add(&mut self, batch: &Arc<Batch>) -> bool {
        let Some((event, previous)) = only_event(batch) else { return false };
        let on_disk = self.newest.get(&event.key).map_or(previous, |before| before.on_disk);
        self.newest.insert(event.key.clone(), Write { on_disk, batch: batch.clone() });
        self.writes += 1;
        self.bytes += batch.weight();
        self.revision = batch.revision;
        true
    }

    /// True when so much more is not too much.
    pub(super) fn has_room_for(&self, more: &Self, most: Limits) -> bool {
        self.writes + more.writes <= most.revisions && self.bytes + more.bytes <= most.bytes
    }
}
