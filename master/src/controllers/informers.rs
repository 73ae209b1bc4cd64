//! The shared informer cache: it has one store per resource, and calls event handlers on every change.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use client::{Error, Kind};
use tokio::sync::watch;
use tokio::time::Instant;

use super::object::Object;

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The kind of the object.
    pub kind: Arc<Kind>,
    /// The object before the change. `None` if it was added.
    pub before: Option<Arc<Object>>,
    /// The object after the change. `None` if it was deleted.
    pub now: Option<Arc<Object>>,
}

impl Change {
    /// The object after the change, or its last state if it was deleted.
    pub fn object(&self) -> Option<&Arc<Object>> {
        self.now.as_ref().or(self.before.as_ref())
    }
}

/// Receives every change, in order within a resource. A handler must not block. It adds keys to a work queue and
/// returns.
pub trait EventHandler: Send + Sync {
    /// Handles one change.
    fn on_change(&self, change: &Change);
}

/// Namespace and name of an object.
type ObjectKey = (String, String);

/// The cached objects of one resource.
struct ResourceCache {
    kind: Arc<Kind>,
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// Index of pods by node name. A node has a few hundred pods.
    by_node: HashMap<Box<str>, Vec<Arc<Object>>>,
    is_synced: bool,
    /// The time since which no change was missed. `None` while the reflector is disconnected.
    synced_since: Option<Instant>,
}

impl ResourceCache {
    /// Inserts an object and returns the one it replaces.
    fn insert(&mut self, key: ObjectKey, object: Arc<Object>) -> Option<Arc<Object>> {
        let before = self.objects.insert(key, object.clone());
        if let Some(before) = &before {
            self.unindex_by_node(before);
        }
        self.index_by_node(&object);
        before
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Object>> {
        let before = self.objects.remove(key)?;
        self.unindex_by_node(&before);
        Some(before)
    }

    /// Removes and returns all objects.
    fn take(&mut self) -> BTreeMap<ObjectKey, Arc<Object>> {
        self.by_node.clear();
        std::mem::take(&mut self.objects)
    }

    fn index_by_node(&mut self, object: &Arc<Object>) {
        let node = &object.pod().node;
        if !node.is_empty() {
            self.by_node.entry(node.clone()).or_default().push(object.clone());
        }
    }

    fn unindex_by_node(&mut self, object: &Arc<Object>) {
        let node = &object.pod().node;
        let Some(there) = self.by_node.get_mut(node) else { return };
        if let Some(at) = there.iter().position(|one| Arc::ptr_eq(one, object)) {
            there.swap_remove(at);
        }
        if there.is_empty() {
            self.by_node.remove(node);
        }
    }
}

#[derive(Default)]
struct Inner {
    /// Caches by qualified resource name.
    caches: BTreeMap<String, ResourceCache>,
    /// Qualified resource names by group and kind.
    kinds: HashMap<(String, String), String>,
    handlers: Vec<Arc<dyn EventHandler>>,
}

/// Shared informers of all resources. Clones share the cache.
#[derive(Clone)]
pub struct SharedInformers {
    inner: Arc<Mutex<Inner>>,
    /// Incremented when a resource has been listed, and when caches are removed.
    progress: watch::Sender<u64>,
}

impl fmt::Debug for SharedInformers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformers").field("caches", &self.lock().caches.len()).finish()
    }
}

impl Default for SharedInformers {
    fn default() -> Self {
        Self { inner: Arc::default(), progress: watch::Sender::new(0) }
    }
}

impl SharedInformers {
    /// Adds an event handler, which receives every later change.
    pub fn add_handler(&self, handler: Arc<dyn EventHandler>) {
        self.lock().handlers.push(handler);
    }

    /// Adds an empty cache for a resource. Returns false if the cache exists.
    pub fn register(&self, kind: &Arc<Kind>) -> bool {
        let mut inner = self.lock();
        let qualified = kind.qualified();
        if inner.caches.contains_key(&qualified) {
            return false;
        }
        inner.kinds.insert((kind.group.to_string(), kind.kind.to_string()), qualified.clone());
        let cache = ResourceCache {
            kind: kind.clone(),
            objects: BTreeMap::new(),
            by_node: HashMap::new(),
            is_synced: false,
            synced_since: None,
        };
        inner.caches.insert(qualified, cache);
        true
    }

    /// Removes the cache of a resource that is no longer served. Handlers are not notified, because the objects may
    /// still exist.
    pub fn unregister(&self, kind: &Kind) {
        let mut inner = self.lock();
        inner.caches.remove(&kind.qualified());
        inner.kinds.remove(&(kind.group.to_string(), kind.kind.to_string()));
        drop(inner);
        self.progress.send_modify(|moves| *moves += 1);
    }

    /// Replaces all objects of a resource with those of a list, and notifies handlers of the differences.
    pub fn replace(&self, kind: &Kind, objects: Vec<Object>) {
        let mut changes = Vec::new();
        let mut inner = self.lock();
        let Some(cache) = inner.caches.get_mut(&kind.qualified()) else { return };
        cache.is_synced = true;
        cache.synced_since = Some(Instant::now());
        let mut old = cache.take();
        for object in objects {
            let key = (object.namespace.clone(), object.name.clone());
            let object = Arc::new(object);
            let before = old.remove(&key);
            if before.as_ref() != Some(&object) {
                // An object that was re-created under the same name is reported as a deletion and an addition.
                changes.extend(changes_between(&cache.kind, before, Some(object.clone())));
            }
            cache.insert(key, object);
        }
        changes.extend(old.into_values().flat_map(|gone| changes_between(&cache.kind, Some(gone), None)));
        notify(inner, &changes);
        self.progress.send_modify(|moves| *moves += 1);
    }

    /// Marks a resource as connected: its watch misses no change from now on.
    pub fn connected(&self, kind: &Kind) {
        if let Some(cache) = self.lock().caches.get_mut(&kind.qualified()) {
            cache.synced_since.get_or_insert_with(Instant::now);
        }
    }

    /// Marks a resource as disconnected until it has been listed or its watch is open again.
    pub fn disconnected(&self, kind: &Kind) {
        if let Some(cache) = self.lock().caches.get_mut(&kind.qualified()) {
            cache.synced_since = None;
        }
    }

    /// Returns the time since which the watch of a resource has missed no change, or `None` while it is
    /// disconnected.
    pub fn synced_since(&self, kind: &Kind) -> Option<Instant> {
        self.lock().caches.get(&kind.qualified())?.synced_since
    }

    /// Adds or updates one object.
    pub fn put(&self, kind: &Kind, object: Object) {
        let mut inner = self.lock();
        let Some(cache) = inner.caches.get_mut(&kind.qualified()) else { return };
        let object = Arc::new(object);
        let key = (object.namespace.clone(), object.name.clone());
        let before = cache.insert(key, object.clone());
        let changes = changes_between(&cache.kind, before, Some(object));
        notify(inner, &changes);
    }

    /// Removes one object.
    pub fn remove(&self, kind: &Kind, namespace: &str, name: &str) {
        let mut inner = self.lock();
        let Some(cache) = inner.caches.get_mut(&kind.qualified()) else { return };
        let Some(before) = cache.remove(&(namespace.to_owned(), name.to_owned())) else { return };
        let changes = changes_between(&cache.kind, Some(before), None);
        notify(inner, &changes);
    }

    /// Returns one object from the cache.
    pub fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.lock().caches.get(&kind.qualified())?.objects.get(&key).cloned()
    }

    /// The pods that are bound to a node.
    pub fn pods_on(&self, node: &str) -> Vec<Arc<Object>> {
        let inner = self.lock();
        let pods = inner.caches.get(&Kind::POD.qualified());
        pods.and_then(|cache| cache.by_node.get(node)).cloned().unwrap_or_default()
    }

    /// Lists the objects of a namespace, or of all namespaces if it is empty.
    pub fn list(&self, kind: &Kind, namespace: &str) -> Vec<Arc<Object>> {
        let inner = self.lock();
        let Some(cache) = inner.caches.get(&kind.qualified()) else { return Vec::new() };
        if namespace.is_empty() {
            return cache.objects.values().cloned().collect();
        }
        let from = (namespace.to_owned(), String::new());
        let own = cache.objects.range(from..).take_while(|((of, _), _)| of == namespace);
        own.map(|(_, object)| object.clone()).collect()
    }

    /// The kinds of all registered resources.
    pub fn kinds(&self) -> Vec<Arc<Kind>> {
        self.lock().caches.values().map(|cache| cache.kind.clone()).collect()
    }

    /// Resolves the kind of an owner reference to the version that is served.
    ///
    /// # Errors
    /// [`Error::NoKind`] if discovery has not found such a kind.
    pub fn resolve_kind(&self, api_version: &str, kind: &str) -> Result<Arc<Kind>, Error> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let inner = self.lock();
        let qualified = inner.kinds.get(&(group.to_owned(), kind.to_owned()));
        let found =
            qualified.and_then(|qualified| inner.caches.get(qualified)).map(|cache| cache.kind.clone());
        let missing = || Error::NoKind { api_version: api_version.to_owned(), kind: kind.to_owned() };
        found.ok_or_else(missing)
    }

    /// Waits until every registered resource has been listed once.
    pub async fn wait_for_sync(&self) {
        let mut progress = self.progress.subscribe();
        let is_synced = || {
            let inner = self.lock();
            !inner.caches.is_empty() && inner.caches.values().all(|cache| cache.is_synced)
        };
        // The sender lives in `self`, so the channel cannot be closed.
        let _ = progress.wait_for(|_| is_synced()).await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Releases the lock, and then calls all handlers with the changes.
fn notify(inner: MutexGuard<'_, Inner>, changes: &[Change]) {
    let handlers = inner.handlers.clone();
    drop(inner);
    for change in changes {
        for handler in &handlers {
            handler.on_change(change);
        }
    }
}

/// Returns one change, or a deletion and an addition if the UID differs.
fn changes_between(kind: &Arc<Kind>, before: Option<Arc<Object>>, now: Option<Arc<Object>>) -> Vec<Change> {
    let change = |before, now| Change { kind: kind.clone(), before, now };
    match (&before, &now) {
        (Some(old), Some(new)) if old.uid != new.uid => vec![change(before, None), change(None, now)],
        _ => vec![change(before, now)],
    }
}

#[cfg(test)]
mod tests;
