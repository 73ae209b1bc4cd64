//! Everything the controllers see: one table a resource, and who is to hear when something in it changes.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use super::client::{Error, Kind};
use super::object::Object;

/// What happened to an object.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its kind.
    pub kind: Arc<Kind>,
    /// As it was, unless it is new.
    pub before: Option<Arc<Object>>,
    /// As it is, unless it is gone.
    pub now: Option<Arc<Object>>,
}

impl Change {
    /// The object, as it is or as it last was.
    pub fn object(&self) -> Option<&Arc<Object>> {
        self.now.as_ref().or(self.before.as_ref())
    }
}

/// Who is told of every change, in order within a resource; it takes a note and returns.
pub trait Hear: Send + Sync {
    /// Something changed: look again.
    fn hear(&self, change: &Change);
}

/// Namespace and name.
type Place = (String, String);

/// One resource.
struct Table {
    kind: Arc<Kind>,
    objects: BTreeMap<Place, Arc<Object>>,
    /// Those of a node, which a node has a few hundred of, by node.
    on_nodes: HashMap<Box<str>, Vec<Arc<Object>>>,
    is_read: bool,
    /// Since when every change is seen; none while the server cannot be followed.
    followed: Option<Instant>,
}

impl Table {
    /// Takes one in; the one that was in its place.
    fn insert(&mut self, place: Place, object: Arc<Object>) -> Option<Arc<Object>> {
        let before = self.objects.insert(place, object.clone());
        if let Some(before) = &before {
            self.leave_node(before);
        }
        self.come_to_node(&object);
        before
    }

    /// Takes one out, and returns it.
    fn remove(&mut self, place: &Place) -> Option<Arc<Object>> {
        let before = self.objects.remove(place)?;
        self.leave_node(&before);
        Some(before)
    }

    /// Takes all out, and returns them.
    fn take(&mut self) -> BTreeMap<Place, Arc<Object>> {
        self.on_nodes.clear();
        std::mem::take(&mut self.objects)
    }

    fn come_to_node(&mut self, object: &Arc<Object>) {
        if !object.node.is_empty() {
            self.on_nodes.entry(object.node.clone()).or_default().push(object.clone());
        }
    }

    fn leave_node(&mut self, object: &Arc<Object>) {
        let Some(there) = self.on_nodes.get_mut(&object.node) else { return };
        if let Some(at) = there.iter().position(|one| Arc::ptr_eq(one, object)) {
            there.swap_remove(at);
        }
        if there.is_empty() {
            self.on_nodes.remove(&object.node);
        }
    }
}

#[derive(Default)]
struct Inner {
    /// By qualified name.
    tables: BTreeMap<String, Table>,
    /// Qualified names by group and kind.
    kinds: HashMap<(String, String), String>,
    hearers: Vec<Arc<dyn Hear>>,
}

/// Everything the controllers see. Clones share it.
#[derive(Clone)]
pub struct World {
    inner: Arc<Mutex<Inner>>,
    /// Moves when a table has been read for the first time, or tables come or go.
    progress: watch::Sender<u64>,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("tables", &self.lock().tables.len()).finish()
    }
}

impl Default for World {
    fn default() -> Self {
        Self { inner: Arc::default(), progress: watch::Sender::new(0) }
    }
}

impl World {
    /// Tells that one of every change from now on.
    pub fn tell(&self, hearer: Arc<dyn Hear>) {
        self.lock().hearers.push(hearer);
    }

    /// Makes room for a resource; false when there is some already.
    pub fn open(&self, kind: &Arc<Kind>) -> bool {
        let mut inner = self.lock();
        let qualified = kind.qualified();
        if inner.tables.contains_key(&qualified) {
            return false;
        }
        inner.kinds.insert((kind.group.to_string(), kind.kind.to_string()), qualified.clone());
        let table = Table {
            kind: kind.clone(),
            objects: BTreeMap::new(),
            on_nodes: HashMap::new(),
            is_read: false,
            followed: None,
        };
        inner.tables.insert(qualified, table);
        true
    }

    /// Forgets a resource that is not served any more. Nobody is told: that its objects cannot be seen does not mean
    /// that they are gone.
    pub fn close(&self, kind: &Kind) {
        let mut inner = self.lock();
        inner.tables.remove(&kind.qualified());
        inner.kinds.remove(&(kind.group.to_string(), kind.kind.to_string()));
        drop(inner);
        self.progress.send_modify(|moves| *moves += 1);
    }

    /// Takes in a whole list.
    pub fn replace(&self, kind: &Kind, objects: Vec<Object>) {
        let mut changes = Vec::new();
        let mut inner = self.lock();
        let Some(table) = inner.tables.get_mut(&kind.qualified()) else { return };
        table.is_read = true;
        table.followed = Some(Instant::now());
        let mut old = table.take();
        for object in objects {
            let place = (object.namespace.clone(), object.name.clone());
            let object = Arc::new(object);
            let before = old.remove(&place);
            if before.as_ref() != Some(&object) {
                // An object of the same name made anew is one that went and another that came.
                changes.extend(steps(&table.kind, before, Some(object.clone())));
            }
            table.insert(place, object);
        }
        changes.extend(old.into_values().flat_map(|gone| steps(&table.kind, Some(gone), None)));
        tell(inner, &changes);
        self.progress.send_modify(|moves| *moves += 1);
    }

    /// Changes of a resource are not seen any more until all of it has been read anew.
    pub fn lose(&self, kind: &Kind) {
        if let Some(table) = self.lock().tables.get_mut(&kind.qualified()) {
            table.followed = None;
        }
    }

    /// Since when every change of a resource is seen; `None` while none is, so that nothing follows from silence.
    pub fn followed(&self, kind: &Kind) -> Option<Instant> {
        self.lock().tables.get(&kind.qualified())?.followed
    }

    /// Takes in one object as it is now.
    pub fn put(&self, kind: &Kind, object: Object) {
        let mut inner = self.lock();
        let Some(table) = inner.tables.get_mut(&kind.qualified()) else { return };
        let object = Arc::new(object);
        let place = (object.namespace.clone(), object.name.clone());
        let before = table.insert(place, object.clone());
        let changes = steps(&table.kind, before, Some(object));
        tell(inner, &changes);
    }

    /// Takes one object out.
    pub fn remove(&self, kind: &Kind, namespace: &str, name: &str) {
        let mut inner = self.lock();
        let Some(table) = inner.tables.get_mut(&kind.qualified()) else { return };
        let Some(before) = table.remove(&(namespace.to_owned(), name.to_owned())) else { return };
        let changes = steps(&table.kind, Some(before), None);
        tell(inner, &changes);
    }

    /// One object.
    pub fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let place = (namespace.to_owned(), name.to_owned());
        self.lock().tables.get(&kind.qualified())?.objects.get(&place).cloned()
    }

    /// The pods of a node.
    pub fn pods_on(&self, node: &str) -> Vec<Arc<Object>> {
        let inner = self.lock();
        let pods = inner.tables.get(&Kind::POD.qualified());
        pods.and_then(|table| table.on_nodes.get(node)).cloned().unwrap_or_default()
    }

    /// All objects of a namespace, or everywhere when that is empty.
    pub fn list(&self, kind: &Kind, namespace: &str) -> Vec<Arc<Object>> {
        let inner = self.lock();
        let Some(table) = inner.tables.get(&kind.qualified()) else { return Vec::new() };
        if namespace.is_empty() {
            return table.objects.values().cloned().collect();
        }
        let from = (namespace.to_owned(), String::new());
        let own = table.objects.range(from..).take_while(|((of, _), _)| of == namespace);
        own.map(|(_, object)| object.clone()).collect()
    }

    /// The kinds there are.
    pub fn kinds(&self) -> Vec<Arc<Kind>> {
        self.lock().tables.values().map(|table| table.kind.clone()).collect()
    }

    /// The kind that somebody names as an owner, in whatever version it is served.
    ///
    /// # Errors
    /// When there is none, or none yet.
    pub fn kind(&self, api_version: &str, kind: &str) -> Result<Arc<Kind>, Error> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let inner = self.lock();
        let qualified = inner.kinds.get(&(group.to_owned(), kind.to_owned()));
        let found =
            qualified.and_then(|qualified| inner.tables.get(qualified)).map(|table| table.kind.clone());
        let missing = || Error::NoKind { api_version: api_version.to_owned(), kind: kind.to_owned() };
        found.ok_or_else(missing)
    }

    /// Waits until everything there is has been read once.
    pub async fn read(&self) {
        let mut progress = self.progress.subscribe();
        let is_read = || {
            let inner = self.lock();
            !inner.tables.is_empty() && inner.tables.values().all(|table| table.is_read)
        };
        // The sender lives in `self`: it cannot be gone.
        let _ = progress.wait_for(|_| is_read()).await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells everybody, without holding up who wants to look meanwhile.
fn tell(inner: MutexGuard<'_, Inner>, changes: &[Change]) {
    let hearers = inner.hearers.clone();
    drop(inner);
    for change in changes {
        for hearer in &hearers {
            hearer.hear(change);
        }
    }
}

/// One change, or two where the object of that name is another one now.
fn steps(kind: &Arc<Kind>, before: Option<Arc<Object>>, now: Option<Arc<Object>>) -> Vec<Change> {
    let change = |before, now| Change { kind: kind.clone(), before, now };
    match (&before, &now) {
        (Some(old), Some(new)) if old.uid != new.uid => vec![change(before, None), change(None, now)],
        _ => vec![change(before, now)],
    }
}

#[cfg(test)]
mod tests;
