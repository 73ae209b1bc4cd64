//! What writers leave for the follower, so that an object written here is encoded here, once.
//!
//! A writer leaves its draft under the key before it commits. The follower, who is told bytes by the store, takes the
//! draft of these bytes instead of reading them; what others wrote, on another server, it reads. What is left goes with
//! its writer, so that there is never more than there are writes under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;

use crate::resource::Fields;
use crate::store::{Draft, Object};

/// What is left by every write under way, by key.
#[derive(Clone, Debug, Default)]
pub(super) struct Left(Arc<Mutex<HashMap<String, Vec<Arc<Parcel>>>>>);

/// A draft, and the object that the follower has made of it.
#[derive(Debug)]
struct Parcel {
    bytes: Bytes,
    draft: Draft,
    object: OnceLock<Object>,
}

/// What one write has left; taken back when it goes.
#[derive(Debug)]
pub(super) struct Leave {
    left: Left,
    key: String,
    parcel: Arc<Parcel>,
}

impl Left {
    /// Leaves a draft under a key.
    pub fn leave(&self, key: &str, draft: Draft) -> Leave {
        let parcel = Arc::new(Parcel { bytes: draft.stored().into(), draft, object: OnceLock::new() });
        self.lock().entry(key.to_owned()).or_default().push(parcel.clone());
        Leave { left: self.clone(), key: key.to_owned(), parcel }
    }

    /// The object of these bytes under a key, at that revision; `fields` are what selectors ask of it now.
    pub fn find(&self, key: &str, bytes: &Bytes, fields: &Fields, revision: u64) -> Option<Object> {
        let is_it = |left: &&Arc<Parcel>| left.bytes == *bytes && left.draft.fields() == fields;
        let parcel = self.lock().get(key)?.iter().find(is_it)?.clone();
        let object = parcel.draft.at(revision);
        // Set before only by a writer of the same bytes, who makes its own then.
        let _ = parcel.object.set(object.clone());
        Some(object)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<Parcel>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leave {
    /// What is to be stored.
    pub fn bytes(&self) -> Bytes {
        self.parcel.bytes.clone()
    }

    /// The object at that revision: the follower's own, if it has made one.
    pub fn at(&self, revision: u64) -> Object {
        let made = self.parcel.object.get().filter(|object| object.revision() == revision);
        made.cloned().unwrap_or_else(|| self.parcel.draft.at(revision))
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        let mut left = self.left.lock();
        if let Some(of) = left.get_mut(&self.key) {
            of.retain(|other| !Arc::ptr_eq(other, &self.parcel));
            if of.is_empty() {
                left.remove(&self.key);
            }
        }
    }
}
