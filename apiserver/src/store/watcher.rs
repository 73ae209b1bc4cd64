//! A place in the history of a resource that moves on as things change.
//!
//! A watcher buffers nothing of its own: it reads the store's history, and one that falls behind it is closed. For one that asks for
//! a few objects out of many, what concerns it waits with the store (`topic`).

use std::sync::Arc;

use tokio::sync::watch;

use super::{Memory, Object, Scope, TooOld, Topic};

/// One write or deletion.
#[derive(Debug)]
pub struct Change {
    /// The revision it made.
    pub revision: u64,
    /// What happened.
    pub kind: ChangeKind,
    /// The object as written, or the last of it with the revision of its deletion.
    pub object: Object,
    /// What stood in its place.
    pub before: Before,
}

/// What stood in the place of an object before it changed.
#[derive(Clone, Debug)]
pub enum Before {
    /// Nothing.
    Nothing,
    /// This object.
    Object(Object),
    /// An object that nobody remembers: it was written before everything that is.
    Forgotten,
}

impl Before {
    /// The object, where one stood that is remembered.
    pub fn object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(object),
            Self::Nothing | Self::Forgotten => None,
        }
    }
}

impl From<Option<Object>> for Before {
    fn from(object: Option<Object>) -> Self {
        object.map_or(Self::Nothing, Self::Object)
    }
}

impl Change {
    /// Bytes that only history keeps alive.
    pub(super) fn weight(&self) -> usize {
        self.before.object().map_or(0, |object| object.json().len())
    }

    /// Bytes of the object.
    pub(super) fn bytes(&self) -> usize {
        self.object.json().len()
    }
}

/// What a change did to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was written.
    Put,
    /// It was taken out.
    Deleted,
}

/// What changes in a scope of one resource.
#[derive(Debug)]
pub struct Watcher {
    store: Memory,
    resource: String,
    scope: Scope,
    seen: u64,
    newest: watch::Receiver<u64>,
    /// What it wants to hear of, and its number among those who do; all where there is none.
    topic: Option<(Topic, u64)>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some((topic, id)) = &self.topic
            && let Some(table) = self.store.lock().watched_mut(&self.resource)
        {
            table.leave(topic, *id);
        }
    }
}

impl Watcher {
    pub(super) fn new(
        store: Memory,
        resource: String,
        scope: Scope,
        seen: u64,
        newest: watch::Receiver<u64>,
    ) -> Self {
        Self { store, resource, scope, seen, newest, topic: None }
    }

    /// The same for one that wants to hear of that alone.
    pub(super) fn about(self, topic: Topic, id: u64) -> Self {
        let mut own = self;
        own.topic = Some((topic, id));
        own
    }

    /// Waits for changes in the scope and takes them, oldest first. Safe to drop and call again.
    ///
    /// # Errors
    /// When the watcher was too slow and changes it has not seen are forgotten, or the whole resource is.
    pub async fn next(&mut self) -> Result<Vec<Arc<Change>>, TooOld> {
        loop {
            let changes = self.take()?;
            if !changes.is_empty() {
                return Ok(changes);
            }
            if self.newest.changed().await.is_err() {
                return Err(self.forgotten());
            }
        }
    }

    /// Whether something may have changed that has not been taken; looks at no lock.
    pub fn has_news(&self) -> bool {
        self.newest.has_changed().unwrap_or(true)
    }

    /// Takes the changes that are there already, oldest first, and waits for none; call it until it returns none.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn ready(&mut self) -> Result<Vec<Arc<Change>>, TooOld> {
        self.take()
    }

    /// The revision up to which everything has been taken; a bookmark may name it.
    pub fn progress(&mut self) -> u64 {
        let shared = self.store.lock();
        if *self.newest.borrow() <= self.seen {
            self.seen = self.seen.max(shared.revision());
        }
        self.seen
    }

    fn forgotten(&self) -> TooOld {
        TooOld { asked: self.seen, oldest: self.store.lock().revision() }
    }

    fn take(&mut self) -> Result<Vec<Arc<Change>>, TooOld> {
        loop {
            self.newest.mark_unchanged();
            // The sender goes with the table of the resource, whatever stands in its place by now.
            if self.newest.has_changed().is_err() {
                return Err(self.forgotten());
            }
            let after = self.store.lock().watched_mut(&self.resource).map(|table| match &self.topic {
                Some((topic, id)) => Ok(table.about(topic, *id)),
                None => table.after(self.seen),
            });
            let mut changes = after.ok_or_else(|| self.forgotten())??;
            let Some(last) = changes.last() else { return Ok(changes) };
            self.seen = last.revision;
            changes.retain(|change| self.scope.holds(change.object.namespace()));
            if !changes.is_empty() {
                return Ok(changes);
            }
        }
    }
}
