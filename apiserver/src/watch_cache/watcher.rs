//! Watchers of a resource. A watcher is a position in the history, which advances with the changes.
//!
//! It has no buffer of its own, and is closed if it falls behind the history. The
//! [`field_index`](super::field_index) queues changes for an indexed watch.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::encodings::{Encodings, Representation};
use super::{Object, Scope, TooOld, WatchCache};
use crate::object::FieldValue;

/// A change of an object.
#[derive(Debug)]
pub struct Change {
    /// Revision of the change.
    pub revision: u64,
    /// Kind of change.
    pub kind: ChangeKind,
    /// The written object. For a deletion, it is the last state at the revision of the deletion.
    pub object: Object,
    /// The previous object.
    pub before: Before,
    pub(super) encodings: Encodings,
}

/// The previous object of a change.
#[derive(Clone, Debug)]
pub enum Before {
    /// There is none, because the change created the object.
    Nothing,
    /// The previous object.
    Object(Object),
    /// The previous object is unknown, because it was written before the history begins.
    Forgotten,
}

impl Before {
    /// The previous object, if known.
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
    /// Creates a change at the revision of its object.
    pub fn new(kind: ChangeKind, object: Object, before: Before) -> Self {
        Self { revision: object.revision(), kind, object, before, encodings: Encodings::default() }
    }

    /// Bytes of the previous object, which only the history retains.
    pub(super) fn weight(&self) -> usize {
        self.before.object().map_or(0, |object| object.json().len())
    }

    /// Bytes of the object.
    pub(super) fn bytes(&self) -> usize {
        self.object.json().len()
    }
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object was created or updated.
    Put,
    /// The object was deleted.
    Deleted,
}

/// A watcher of changes in a scope of a resource.
#[derive(Debug)]
pub struct Watcher {
    store: WatchCache,
    resource: String,
    scope: Scope,
    seen: u64,
    newest: watch::Receiver<u64>,
    /// The field value and the subscriber ID of an indexed watch.
    field_value: Option<(FieldValue, u64)>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some((field_value, id)) = &self.field_value
            && let Some(table) = self.store.lock().table_mut(&self.resource)
        {
            table.unsubscribe(field_value, *id);
        }
    }
}

impl Watcher {
    pub(super) fn new(
        store: WatchCache,
        resource: String,
        scope: Scope,
        seen: u64,
        newest: watch::Receiver<u64>,
    ) -> Self {
        Self { store, resource, scope, seen, newest, field_value: None }
    }

    /// Makes this an indexed watch.
    pub(super) fn subscribed(self, field_value: FieldValue, id: u64) -> Self {
        let mut own = self;
        own.field_value = Some((field_value, id));
        own
    }

    /// Waits for changes in the scope, oldest first. Cancel safe.
    ///
    /// # Errors
    /// If the watcher has fallen behind the history, or the resource was removed.
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

    /// The encoding of a change, shared by all watchers.
    pub fn encoded(
        &self,
        change: &Arc<Change>,
        representation: Representation,
        encode: impl FnOnce() -> Bytes,
    ) -> Bytes {
        self.store.encoded().get(change, representation, encode)
    }

    /// Whether there may be new changes. The check does not take the lock.
    pub fn has_changes(&self) -> bool {
        self.newest.has_changed().unwrap_or(true)
    }

    /// Returns available changes without waiting, oldest first. The caller repeats it until it returns none.
    ///
    /// # Errors
    /// The same as [`Self::next`].
    pub fn ready(&mut self) -> Result<Vec<Arc<Change>>, TooOld> {
        self.take()
    }

    /// The revision up to which the watcher has returned all changes, for bookmarks.
    pub fn bookmark_revision(&mut self) -> u64 {
        let shared = self.store.lock();
        if *self.newest.borrow() <= self.seen {
            self.seen = self.seen.max(shared.revision());
        }
        self.seen
    }

    fn forgotten(&self) -> TooOld {
        TooOld { requested: self.seen, oldest: self.store.lock().revision() }
    }

    fn take(&mut self) -> Result<Vec<Arc<Change>>, TooOld> {
        loop {
            self.newest.mark_unchanged();
            // The sender is dropped with the resource's table, even if a new table replaced it.
            if self.newest.has_changed().is_err() {
                return Err(self.forgotten());
            }
            let after = self.store.lock().table_mut(&self.resource).map(|table| match &self.field_value {
                Some((field_value, id)) => Ok(table.subscribed(field_value, *id)),
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
