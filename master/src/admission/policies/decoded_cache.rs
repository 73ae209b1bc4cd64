//! Caches decoded objects by revision, so that policies are not decoded for each request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use apiserver::watch_cache::{Scope, WatchCache};

/// The decoded objects, at most one per stored object.
pub struct DecodedCache<T> {
    resource: String,
    read: fn(&[u8]) -> T,
    by_name: Mutex<HashMap<String, (u64, Arc<T>)>>,
}

impl<T> DecodedCache<T> {
    /// Creates a cache of a resource. `read` decodes its objects.
    pub fn new(resource: String, read: fn(&[u8]) -> T) -> Self {
        Self { resource, read, by_name: Mutex::default() }
    }

    /// Whether no object is stored.
    pub fn is_empty(&self, cache: &WatchCache) -> bool {
        cache.count(&self.resource, &Scope::All) == 0
    }

    /// All decoded objects, sorted by name.
    pub fn all(&self, cache: &WatchCache) -> Vec<Arc<T>> {
        let mut objects = cache.list(&self.resource, &Scope::All).objects;
        objects.sort_by(|one, two| one.name().cmp(two.name()));
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *by_name);
        objects
            .iter()
            .map(|object| {
                let known =
                    before.remove(object.name()).filter(|(revision, _)| *revision == object.revision());
                let read = known.map_or_else(|| Arc::new((self.read)(object.json())), |(_, read)| read);
                by_name.insert(object.name().to_owned(), (object.revision(), read.clone()));
                read
            })
            .collect()
    }
}
