//! Field index. A watcher of one field value gets only the changes that match it.
//!
//! Every node watches its own pods. Without the index, each change of a pod would wake the watchers of all nodes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

use super::HISTORY_CHANGES;
use super::watcher::{Before, Change};
use crate::object::FieldValue;

/// Maximum number of queued changes of a subscriber, with the initial history. A subscriber that is slower is
/// closed and lists again.
const QUEUE_CHANGES: usize = 2 * HISTORY_CHANGES;
/// Maximum bytes in a queue, which one object may exceed.
const QUEUE_BYTES: usize = 4 * 1024 * 1024;

/// Whether the object has, or may have had, the value.
fn matches(wanted: &FieldValue, change: &Change) -> bool {
    let has = || change.object.value(&wanted.path) == wanted.value;
    match &change.before {
        Before::Forgotten => true,
        Before::Nothing => has(),
        Before::Object(before) => has() || before.value(&wanted.path) == wanted.value,
    }
}

/// Subscribers by field, value and ID.
#[derive(Debug, Default)]
pub(super) struct FieldIndex {
    fields: HashMap<String, HashMap<String, BTreeMap<u64, Queue>>>,
}

/// The queued changes of a subscriber.
#[derive(Debug)]
struct Queue {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    /// The revision of the latest queued change. It wakes the subscriber.
    newest: watch::Sender<u64>,
}

impl Queue {
    fn put(&mut self, change: &Arc<Change>) {
        self.bytes += change.bytes();
        self.changes.push_back(change.clone());
        self.newest.send_replace(change.revision);
    }

    fn has_room(&self) -> bool {
        self.changes.len() < QUEUE_CHANGES && self.bytes <= QUEUE_BYTES
    }
}

impl FieldIndex {
    /// Adds a subscriber at a revision, and queues the matching changes since then.
    pub fn subscribe<'a>(
        &mut self,
        field_value: &FieldValue,
        id: u64,
        after: u64,
        past: impl Iterator<Item = &'a Arc<Change>>,
    ) -> watch::Receiver<u64> {
        let mut queue = Queue { changes: VecDeque::new(), bytes: 0, newest: watch::Sender::new(after) };
        past.filter(|change| matches(field_value, change)).for_each(|change| queue.put(change));
        let newest = queue.newest.subscribe();
        let values = self.fields.entry(field_value.path.clone()).or_default();
        values.entry(field_value.value.clone()).or_default().insert(id, queue);
        newest
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Removes a subscriber.
    pub fn unsubscribe(&mut self, field_value: &FieldValue, id: u64) {
        let Some(values) = self.fields.get_mut(&field_value.path) else { return };
        if let Some(queues) = values.get_mut(&field_value.value) {
            queues.remove(&id);
            if queues.is_empty() {
                values.remove(&field_value.value);
            }
        }
        if values.is_empty() {
            self.fields.remove(&field_value.path);
        }
    }

    /// Queues a change for matching subscribers, and closes those whose queue is full.
    pub fn dispatch(&mut self, change: &Arc<Change>) {
        for (path, values) in &mut self.fields {
            let now = change.object.value(path);
            let before =
                change.before.object().map(|before| before.value(path)).filter(|before| *before != now);
            for value in [Some(now), before].into_iter().flatten() {
                if let Some(queues) = values.get_mut(value) {
                    queues.retain(|_, queue| queue.has_room());
                    queues.values_mut().for_each(|queue| queue.put(change));
                }
            }
        }
    }

    /// Removes and returns queued changes while `fits` accepts them. Changes of the same revision are removed together,
    /// even if `fits` would reject one.
    pub fn take(
        &mut self,
        field_value: &FieldValue,
        id: u64,
        mut fits: impl FnMut(&Change) -> bool,
    ) -> Vec<Arc<Change>> {
        let queue = self
            .fields
            .get_mut(&field_value.path)
            .and_then(|values| values.get_mut(&field_value.value)?.get_mut(&id));
        let Some(queue) = queue else { return Vec::new() };
        let mut taken: Vec<Arc<Change>> = Vec::new();
        while let Some(next) = queue.changes.front()
            && (taken.last().is_some_and(|last| last.revision == next.revision) || fits(next))
        {
            queue.bytes -= next.bytes();
            taken.extend(queue.changes.pop_front());
        }
        taken
    }
}

#[cfg(test)]
mod tests;
