//! Who wants to hear of a few objects out of many: those with one value of a field. They are told of these, and sleep through all else.
//!
//! Every node watches its own pods. Were each woken by the pods of all others, a thousand nodes would cost a thousand looks a change.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

use super::HISTORY_CHANGES;
use super::watcher::{Before, Change};

/// Changes that wait for one reader, of which all that are remembered may be there from the beginning; who is slower is closed, and
/// lists again.
const WAITING: usize = 2 * HISTORY_CHANGES;
/// Bytes of them, beside the one that passes that.
const WAITING_BYTES: usize = 4 * 1024 * 1024;

/// One value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The path of the field, as selectors name it.
    pub path: String,
    /// Its value, empty where it is not set.
    pub value: String,
}

impl Topic {
    /// Whether an object has or had that value, as far as anybody knows.
    fn concerns(&self, change: &Change) -> bool {
        let has = || change.object.value(&self.path) == self.value;
        match &change.before {
            Before::Forgotten => true,
            Before::Nothing => has(),
            Before::Object(before) => has() || before.value(&self.path) == self.value,
        }
    }
}

/// All that somebody wants to hear of.
#[derive(Debug, Default)]
pub(super) struct Topics {
    fields: HashMap<String, HashMap<String, BTreeMap<u64, Post>>>,
}

/// What waits for one reader.
#[derive(Debug)]
struct Post {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    /// The revision of the newest; the reader wakes when it moves.
    newest: watch::Sender<u64>,
}

impl Post {
    fn put(&mut self, change: &Arc<Change>) {
        self.bytes += change.bytes();
        self.changes.push_back(change.clone());
        self.newest.send_replace(change.revision);
    }

    fn has_room(&self) -> bool {
        self.changes.len() < WAITING && self.bytes <= WAITING_BYTES
    }
}

impl Topics {
    /// A reader of that number comes, who knows all up to that revision and is told of the past since then.
    pub fn join<'a>(
        &mut self,
        topic: &Topic,
        id: u64,
        after: u64,
        past: impl Iterator<Item = &'a Arc<Change>>,
    ) -> watch::Receiver<u64> {
        let mut post = Post { changes: VecDeque::new(), bytes: 0, newest: watch::Sender::new(after) };
        past.filter(|change| topic.concerns(change)).for_each(|change| post.put(change));
        let newest = post.newest.subscribe();
        let values = self.fields.entry(topic.path.clone()).or_default();
        values.entry(topic.value.clone()).or_default().insert(id, post);
        newest
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// A reader goes.
    pub fn leave(&mut self, topic: &Topic, id: u64) {
        let Some(values) = self.fields.get_mut(&topic.path) else { return };
        if let Some(posts) = values.get_mut(&topic.value) {
            posts.remove(&id);
            if posts.is_empty() {
                values.remove(&topic.value);
            }
        }
        if values.is_empty() {
            self.fields.remove(&topic.path);
        }
    }

    /// Tells those whom it concerns; whoever has too much waiting is closed.
    pub fn tell(&mut self, change: &Arc<Change>) {
        for (path, values) in &mut self.fields {
            let now = change.object.value(path);
            let before =
                change.before.object().map(|before| before.value(path)).filter(|before| *before != now);
            for value in [Some(now), before].into_iter().flatten() {
                if let Some(posts) = values.get_mut(value) {
                    posts.retain(|_, post| post.has_room());
                    posts.values_mut().for_each(|post| post.put(change));
                }
            }
        }
    }

    /// Takes what waits for a reader, oldest first, for as long as `fits` says so, and the rest of what the last one's revision changed.
    pub fn take(
        &mut self,
        topic: &Topic,
        id: u64,
        mut fits: impl FnMut(&Change) -> bool,
    ) -> Vec<Arc<Change>> {
        let post =
            self.fields.get_mut(&topic.path).and_then(|values| values.get_mut(&topic.value)?.get_mut(&id));
        let Some(post) = post else { return Vec::new() };
        let mut taken: Vec<Arc<Change>> = Vec::new();
        while let Some(next) = post.changes.front()
            && (taken.last().is_some_and(|last| last.revision == next.revision) || fits(next))
        {
            post.bytes -= next.bytes();
            taken.extend(post.changes.pop_front());
        }
        taken
    }
}

#[cfg(test)]
mod tests;
