//! Objects of one resource, read once a revision: what is decided by with every write is not decoded with every write.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::strategy::Json;
use apiserver::store::{Memory, Scope};

/// What was read of every object: no more than there are.
pub struct Known<T> {
    resource: String,
    read: fn(Json) -> T,
    by_name: Mutex<HashMap<String, (u64, Arc<T>)>>,
}

impl<T> Known<T> {
    /// Objects under that name in the store, read in this way.
    pub fn new(resource: String, read: fn(Json) -> T) -> Self {
        Self { resource, read, by_name: Mutex::default() }
    }

    /// True for none.
    pub fn is_empty(&self, cache: &Memory) -> bool {
        cache.count(&self.resource, &Scope::All) == 0
    }

    /// Every object, by name.
    pub fn all(&self, cache: &Memory) -> Vec<Arc<T>> {
        let mut objects = cache.list(&self.resource, &Scope::All).objects;
        objects.sort_by(|one, two| one.name().cmp(two.name()));
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *by_name);
        objects
            .iter()
            .map(|object| {
                let known =
                    before.remove(object.name()).filter(|(revision, _)| *revision == object.revision());
                let read = known.map_or_else(|| Arc::new((self.read)(object.decode())), |(_, read)| read);
                by_name.insert(object.name().to_owned(), (object.revision(), read.clone()));
                read
            })
            .collect()
    }
}
