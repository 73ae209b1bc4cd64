//! The watch cache: all objects of a server in memory, with a history for watches.
//!
//! A lone kubelet uses it as its only store. The control plane fills it from durable storage.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::encodings::Encoded;
use super::field_index::FieldIndex;
use super::snapshot::{Objects, Snapshot, SnapshotCache};
use super::watcher::{Before, Change, ChangeKind, Watcher};
use super::{Draft, Object, Scope, TooOld};
use crate::object::FieldValue;

/// Maximum number of changes per resource from which watches can resume. A watch from an older revision gets 410.
pub(crate) const HISTORY_CHANGES: usize = 4096;
/// Maximum number of changes per read. During a burst, it limits how long the lock is held, and watchers are not
/// woken for each change.
const BATCH_CHANGES: usize = 128;
/// Maximum bytes per read, which one object may exceed. It bounds the memory of a watch that is not read.
const BATCH_BYTES: usize = 256 * 1024;
/// Default limit of the history per resource, in bytes of superseded objects.
const HISTORY_BYTES: usize = 1024 * 1024;

/// The watch cache. Clones share it.
#[derive(Clone, Debug)]
pub struct WatchCache {
    shared: Arc<Mutex<Shared>>,
    encoded: Arc<Encoded>,
}

#[derive(Debug)]
pub(super) struct Shared {
    revision: u64,
    first: u64,
    history_bytes: usize,
    resources: BTreeMap<String, Table>,
    /// The last ID that a subscriber of the field index got.
    last_subscriber: u64,
    /// The revision up to which changes have been applied.
    reached: watch::Sender<u64>,
}

#[derive(Debug)]
pub(super) struct Table {
    objects: Objects,
    snapshots: SnapshotCache,
    history: VecDeque<Arc<Change>>,
    history_bytes: usize,
    history_limit: usize,
    /// The oldest revision from which watches can resume.
    oldest: u64,
    /// The revision at which the cache started, as long as no earlier history was loaded and nothing was dropped.
    starts_at: Option<u64>,
    /// The revision of the latest change. It wakes watchers.
    newest: watch::Sender<u64>,
    /// The subscribers of single field values.
    field_index: FieldIndex,
}

/// Result of a write.
#[derive(Clone, Debug)]
pub enum Put {
    /// The object was created.
    Created(Object),
    /// The object was replaced.
    Updated(Object),
    /// The object was identical, and no revision was used.
    Unchanged(Object),
}

impl Put {
    /// The stored object.
    pub fn object(&self) -> &Object {
        match self {
            Self::Created(object) | Self::Updated(object) | Self::Unchanged(object) => object,
        }
    }
}

/// A change of the durable storage.
#[derive(Clone, Debug)]
pub enum StorageEvent {
    /// The object was written.
    Put {
        /// Storage name of the resource.
        resource: String,
        /// The written object.
        object: Object,
    },
    /// The object was deleted.
    Delete {
        /// Storage name of the resource.
        resource: String,
        /// Namespace of the object.
        namespace: String,
        /// Name of the object.
        name: String,
    },
}

/// Objects at one revision, ordered by namespace and name.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Revision at which the objects were listed.
    pub revision: u64,
    /// The listed objects.
    pub objects: Vec<Object>,
}

impl WatchCache {
    /// Creates an empty cache whose first revision is above `first`.
    ///
    /// If `first` is the start time of the process, revisions of its predecessor are never used again. Clients that
    /// resume watches across a restart get 410.
    pub fn new(first: u64) -> Self {
        Self::with_history(first, HISTORY_BYTES)
    }

    /// Does the same as [`Self::new`]. `history_bytes` limits the history per resource, in bytes of superseded
    /// objects.
    pub fn with_history(first: u64, history_bytes: usize) -> Self {
        let reached = watch::Sender::new(first);
        let shared = Shared {
            revision: first,
            first,
            history_bytes,
            resources: BTreeMap::new(),
            last_subscriber: 0,
            reached,
        };
        Self { shared: Arc::new(Mutex::new(shared)), encoded: Arc::default() }
    }

    /// Current revision.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Writes an object of a resource, such as `pods` or `leases.coordination.k8s.io`.
    pub fn put(&self, resource: &str, draft: &Draft) -> Put {
        let mut shared = self.lock();
        let table = shared.table(resource);
        if let Some(before) = table.objects.get(draft.namespace(), draft.name())
            && before.equals(draft)
        {
            return Put::Unchanged(before.clone());
        }
        let revision = shared.revision + 1;
        let put = shared.put(resource, draft.at(revision));
        shared.reached.send_replace(revision);
        put
    }

    /// Atomically replaces an object, or creates it, with what `change` makes of the present object. `None` leaves the
    /// object as it is. Returns the revision at which the object has this content.
    pub fn update(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnOnce(Option<&Object>) -> Option<Draft>,
    ) -> u64 {
        let mut shared = self.lock();
        let before = shared.table(resource).objects.get(namespace, name);
        let present = before.map_or(0, Object::revision);
        let Some(draft) = change(before) else { return present };
        if before.is_some_and(|before| before.equals(&draft)) {
            return present;
        }
        let revision = shared.revision + 1;
        shared.put(resource, draft.at(revision));
        shared.reached.send_replace(revision);
        revision
    }

    /// Deletes an object and returns it with the revision of the deletion.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> Option<Object> {
        let mut shared = self.lock();
        let revision = shared.revision + 1;
        let deleted = shared.delete(resource, namespace, name, revision);
        let revision = shared.revision;
        shared.reached.send_replace(revision);
        deleted
    }

    /// Adds an object while the cache is filled for the first time, before watches start.
    pub fn load(&self, resource: &str, object: Object) {
        self.lock().table(resource).objects.insert(object);
    }

    /// Replaces all objects of a resource that is newly served. Watches can start at this revision, and existing
    /// ones are closed.
    pub fn replace_resource(&self, resource: &str, objects: Vec<Object>, revision: u64) {
        let mut shared = self.lock();
        shared.resources.remove(resource);
        let table = shared.table(resource);
        (table.oldest, table.starts_at) = (revision, Some(revision));
        table.objects = objects.into_iter().collect();
    }

    /// Removes a resource that is no longer served and closes its watches.
    pub fn remove_resource(&self, resource: &str) {
        self.lock().resources.remove(resource);
    }

    /// Applies storage events of one revision atomically. Revisions must be applied in order. Deletions get this
    /// revision.
    pub fn apply(&self, revision: u64, changes: impl IntoIterator<Item = StorageEvent>) {
        self.apply_all([(revision, changes)]);
    }

    /// Does the same as [`Self::apply`] for several revisions. Waiting tasks are woken only once.
    pub fn apply_all(&self, steps: impl IntoIterator<Item = (u64, impl IntoIterator<Item = StorageEvent>)>) {
        let mut shared = self.lock();
        for (revision, changes) in steps {
            for change in changes {
                match change {
                    StorageEvent::Put { resource, object } => drop(shared.put(&resource, object)),
                    StorageEvent::Delete { resource, namespace, name } => {
                        shared.delete(&resource, &namespace, &name, revision);
                    }
                }
            }
            shared.revision = shared.revision.max(revision);
        }
        shared.reached.send_replace(shared.revision);
    }

    /// The resources whose earlier history has not been loaded, with the revisions at which they start.
    pub fn without_history(&self) -> Vec<(String, u64)> {
        let shared = self.lock();
        let starts_at = shared.resources.iter().map(|(name, table)| (name, table.starts_at));
        starts_at.filter_map(|(name, starts_at)| Some((name.clone(), starts_at?))).collect()
    }

    /// Adds the history of a resource between the revision `oldest` and the revision at which the cache starts.
    pub fn load_history(&self, resource: &str, starts_at: u64, past: Vec<Change>, oldest: u64) {
        let mut shared = self.lock();
        // The resource may have been replaced, or history dropped, which would leave a gap.
        let table = shared.resources.get_mut(resource).filter(|table| table.starts_at == Some(starts_at));
        if let Some(table) = table {
            table.load_history(starts_at, past, oldest);
        }
    }

    /// Waits until storage events up to a revision have been applied.
    pub async fn wait_for_revision(&self, revision: u64) {
        let mut reached = self.lock().reached.subscribe();
        // Cannot fail: `self` keeps the sender alive.
        let _ = reached.wait_for(|up_to| *up_to >= revision).await;
    }

    /// The cached object with this key, if there is one.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Object> {
        self.lock().resources.get(resource)?.objects.get(namespace, name).cloned()
    }

    /// All objects in a scope.
    pub fn list(&self, resource: &str, scope: &Scope) -> Listing {
        let snapshot = self.snapshot(resource);
        Listing { revision: snapshot.revision, objects: snapshot.after(scope, None).cloned().collect() }
    }

    /// Number of objects in a scope.
    pub fn count(&self, resource: &str, scope: &Scope) -> usize {
        self.snapshot(resource).count(scope)
    }

    /// Returns a snapshot of a resource.
    pub fn snapshot(&self, resource: &str) -> Snapshot {
        let shared = self.lock();
        let objects = shared.resources.get(resource).map(|table| table.objects.clone()).unwrap_or_default();
        Snapshot { revision: shared.revision, objects }
    }

    /// Returns a snapshot of a resource at an earlier revision.
    ///
    /// # Errors
    /// If the revision is too old.
    pub fn snapshot_at(&self, resource: &str, revision: u64) -> Result<Snapshot, TooOld> {
        self.lock().table(resource).at(revision)
    }

    /// Keeps a snapshot for the next pages of a list, within limits.
    pub fn keep(&self, resource: &str, snapshot: &Snapshot) {
        self.lock().table(resource).snapshots.keep(snapshot);
    }

    /// Starts a watcher of the changes in a scope after a revision.
    ///
    /// # Errors
    /// If the revision is too old.
    pub fn watch(&self, resource: &str, scope: Scope, after: u64) -> Result<Watcher, TooOld> {
        let mut shared = self.lock();
        let table = shared.table(resource);
        if after < table.oldest {
            return Err(TooOld { requested: after, oldest: table.oldest });
        }
        let newest = table.newest.subscribe();
        Ok(Watcher::new(self.clone(), resource.to_owned(), scope, after, newest))
    }

    /// Starts a watcher of changes to objects in a scope that have or had this field value.
    ///
    /// # Errors
    /// The same as [`Self::watch`].
    pub fn watch_field(
        &self,
        resource: &str,
        scope: Scope,
        field_value: FieldValue,
        after: u64,
    ) -> Result<Watcher, TooOld> {
        let mut shared = self.lock();
        shared.last_subscriber += 1;
        let id = shared.last_subscriber;
        let table = shared.table(resource);
        if after < table.oldest {
            return Err(TooOld { requested: after, oldest: table.oldest });
        }
        let from = table.history.partition_point(|change| change.revision <= after);
        let newest = table.field_index.subscribe(&field_value, id, after, table.history.range(from..));
        Ok(Watcher::new(self.clone(), resource.to_owned(), scope, after, newest).subscribed(field_value, id))
    }

    pub(super) fn encoded(&self) -> &Encoded {
        &self.encoded
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn put(&mut self, resource: &str, object: Object) -> Put {
        let revision = object.revision();
        let table = self.table(resource);
        let before = table.objects.insert(object.clone());
        let put = if before.is_some() { Put::Updated(object.clone()) } else { Put::Created(object.clone()) };
        table.record(Change::new(ChangeKind::Put, object, before.into()));
        self.revision = revision;
        put
    }

    fn delete(&mut self, resource: &str, namespace: &str, name: &str, revision: u64) -> Option<Object> {
        let table = self.table(resource);
        let before = table.objects.remove(namespace, name)?;
        let object = before.at(revision);
        table.record(Change::new(ChangeKind::Deleted, object.clone(), Before::Object(before)));
        self.revision = revision;
        Some(object)
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// The table of a resource with watchers, or `None` if it was removed.
    pub(super) fn table_mut(&mut self, resource: &str) -> Option<&mut Table> {
        self.resources.get_mut(resource)
    }

    fn table(&mut self, resource: &str) -> &mut Table {
        if !self.resources.contains_key(resource) {
            let table = Table {
                objects: Objects::default(),
                snapshots: SnapshotCache::default(),
                history: VecDeque::new(),
                history_bytes: 0,
                history_limit: self.history_bytes,
                oldest: self.first,
                starts_at: Some(self.first),
                newest: watch::Sender::new(self.first),
                field_index: FieldIndex::default(),
            };
            self.resources.insert(resource.to_owned(), table);
        }
        self.resources.get_mut(resource).expect("it was put there a line above")
    }
}

impl Table {
    /// Returns the changes after a revision, oldest first, up to the read limit. It always returns all changes of
    /// the last revision, so that a watcher can resume after it.
    pub(super) fn after(&self, revision: u64) -> Result<Vec<Arc<Change>>, TooOld> {
        if revision < self.oldest {
            return Err(TooOld { requested: revision, oldest: self.oldest });
        }
        let from = self.history.partition_point(|change| change.revision <= revision);
        let mut fits = batch_limit();
        let mut changes: Vec<_> =
            self.history.range(from..).take_while(|change| fits(change)).cloned().collect();
        if let Some(last) = changes.last().map(|last| last.revision) {
            let rest = self.history.range(from + changes.len()..);
            changes.extend(rest.take_while(|change| change.revision == last).cloned());
        }
        Ok(changes)
    }

    /// Takes queued changes of a field index subscriber, up to the read limit.
    pub(super) fn subscribed(&mut self, field_value: &FieldValue, id: u64) -> Vec<Arc<Change>> {
        self.field_index.take(field_value, id, batch_limit())
    }

    #[cfg(test)]
    pub(super) fn has_no_subscribers(&self) -> bool {
        self.field_index.is_empty()
    }

    /// Removes a field index subscriber.
    pub(super) fn unsubscribe(&mut self, field_value: &FieldValue, id: u64) {
        self.field_index.unsubscribe(field_value, id);
    }

    /// Returns a kept snapshot, or the current state with all later changes undone.
    fn at(&self, revision: u64) -> Result<Snapshot, TooOld> {
        if let Some(kept) = self.snapshots.find(revision) {
            return Ok(kept.clone());
        }
        if revision < self.oldest {
            return Err(TooOld { requested: revision, oldest: self.oldest });
        }
        let mut objects = self.objects.clone();
        for change in self.history.iter().rev().take_while(|change| change.revision > revision) {
            match &change.before {
                Before::Forgotten => return Err(TooOld { requested: revision, oldest: change.revision }),
                Before::Object(before) => drop(objects.insert(before.clone())),
                Before::Nothing => drop(objects.remove(change.object.namespace(), change.object.name())),
            }
        }
        Ok(Snapshot { revision, objects })
    }

    fn record(&mut self, change: Change) {
        let revision = change.revision;
        self.history_bytes += change.weight();
        self.snapshots.superseded(change.weight());
        let change = Arc::new(change);
        self.field_index.dispatch(&change);
        self.history.push_back(change);
        self.trim_history();
        self.newest.send_replace(revision);
    }

    fn load_history(&mut self, starts_at: u64, past: Vec<Change>, oldest: u64) {
        // Changes that were applied before the resource was replaced are part of the loaded history.
        while let Some(known) = self.history.pop_front_if(|change| change.revision <= starts_at) {
            self.history_bytes -= known.weight();
        }
        for change in past.into_iter().rev() {
            self.history_bytes += change.weight();
            self.history.push_front(Arc::new(change));
        }
        (self.oldest, self.starts_at) = (oldest, None);
        self.trim_history();
    }

    fn trim_history(&mut self) {
        while self.history.len() > HISTORY_CHANGES || self.history_bytes > self.history_limit {
            let Some(oldest) = self.history.pop_front() else { break };
            self.history_bytes -= oldest.weight();
            (self.oldest, self.starts_at) = (oldest.revision, None);
        }
    }
}

/// Returns a predicate that accepts changes up to the read limit.
fn batch_limit() -> impl FnMut(&Change) -> bool {
    let (mut changes, mut bytes) = (0, 0);
    move |change| {
        let room = changes < BATCH_CHANGES && bytes < BATCH_BYTES;
        changes += 1;
        bytes += change.bytes();
        room
    }
}
