//! Hands encoded objects from writers to the cache updater, so that a local write is encoded only once.
//!
//! Before it commits, a writer stores its draft under the key of the object. The updater takes the draft with the
//! same bytes instead of decoding the event. It decodes the writes of other servers. A draft is removed when its
//! writer finishes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;

use crate::resource::Fields;
use crate::watch_cache::{Draft, Object};

/// The drafts of current writers, by key.
#[derive(Clone, Debug, Default)]
pub(super) struct Handoff(Arc<Mutex<HashMap<String, Vec<Arc<Parked>>>>>);

/// A draft, and the object that the updater made of it.
#[derive(Debug)]
struct Parked {
    bytes: Bytes,
    draft: Draft,
    object: OnceLock<Object>,
}

/// Removes the draft of a writer when dropped.
#[derive(Debug)]
pub(super) struct HandoffGuard {
    handoff: Handoff,
    key: String,
    parked: Arc<Parked>,
}

impl Handoff {
    /// Stores a draft under a key until the guard is dropped.
    pub fn park(&self, key: &str, draft: Draft) -> HandoffGuard {
        let parked = Arc::new(Parked { bytes: draft.stored().into(), draft, object: OnceLock::new() });
        self.lock().entry(key.to_owned()).or_default().push(parked.clone());
        HandoffGuard { handoff: self.clone(), key: key.to_owned(), parked }
    }

    /// The object with these bytes at a revision. `fields` are the currently selectable fields.
    pub fn find(&self, key: &str, bytes: &Bytes, fields: &Fields, revision: u64) -> Option<Object> {
        let is_it = |handoff: &&Arc<Parked>| handoff.bytes == *bytes && handoff.draft.fields() == fields;
        let parked = self.lock().get(key)?.iter().find(is_it)?.clone();
        let object = parked.draft.at(revision);
        // The cell is already set only if another writer parked the same bytes. That writer creates its own object.
        let _ = parked.object.set(object.clone());
        Some(object)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<Parked>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HandoffGuard {
    /// The bytes that the storage gets.
    pub fn bytes(&self) -> Bytes {
        self.parked.bytes.clone()
    }

    /// The object at a revision, shared with the cache if possible.
    pub fn at(&self, revision: u64) -> Object {
        let made = self.parked.object.get().filter(|object| object.revision() == revision);
        made.cloned().unwrap_or_else(|| self.parked.draft.at(revision))
    }
}

impl Drop for HandoffGuard {
    fn drop(&mut self) {
        let mut handoff = self.handoff.lock();
        if let Some(of) = handoff.get_mut(&self.key) {
            of.retain(|other| !Arc::ptr_eq(other, &self.parked));
            if of.is_empty() {
                handoff.remove(&self.key);
            }
        }
    }
}
