//! Cache updater: applies the watch events of the storage to the watch cache, and loads resources that are added at
//! run time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use super::handoff::Handoff;
use super::key;
use crate::catalog::{Catalog, Rows};
use crate::resource::Fields;
use crate::storage::{Batch, Change, Entry, Error, Page, Revision, Store};
use crate::watch_cache::{Draft, Object, Scope, StorageEvent, WatchCache};

/// Size of the watch history per resource, in bytes of superseded objects. It covers half a second of thousands of
/// pod bindings. A watcher that waits that long for a processor therefore need not list again.
const HISTORY_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of batches that are applied at once. Waiting writers are woken once for all of them.
const MAX_BATCHES: usize = 128;
/// Delay before the storage watch is restarted.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// A change of the served rows, with a channel that reports its completion.
pub(super) struct RowsUpdate {
    pub rows: Arc<Rows>,
    pub done: oneshot::Sender<Result<(), Error>>,
}

/// Applies storage events to the watch cache.
pub(super) struct CacheUpdater {
    pub store: Arc<dyn Store>,
    pub cache: WatchCache,
    pub handoff: Handoff,
    pub catalog: Catalog,
    /// The rows whose objects are cached. The catalog is updated once the cache contains all of these objects.
    pub rows: Arc<Rows>,
    pub revision: Revision,
    pub updates: mpsc::Receiver<RowsUpdate>,
    /// A row update that completes when the cache reaches this revision.
    pub waiting: Option<(Revision, RowsUpdate)>,
}

/// Loads all objects. Returns the cache and the revision to watch from.
pub(super) async fn fill(store: &dyn Store, rows: &Rows) -> Result<(WatchCache, Revision), Error> {
    let mut pages = Pages::of(store, key::PREFIX).await?;
    let cache = WatchCache::with_history(pages.revision, HISTORY_BYTES);
    while let Some(entries) = pages.next().await? {
        for entry in &entries {
            if let Some((stored, object)) = read(rows, entry) {
                cache.load(stored, object);
            }
        }
    }
    cache.apply(pages.revision, []);
    Ok((cache, pages.revision))
}

impl CacheUpdater {
    /// Runs until the registry is dropped.
    pub async fn run(mut self) {
        while !self.updates.is_closed() {
            let ended = match self.follow().await {
                Err(Error::Compacted { .. }) => {
                    tracing::warn!(
                        "the storage log was compacted past the watch cache; reloading all objects"
                    );
                    self.resync().await
                }
                ended => ended,
            };
            if let Err(error) = ended {
                tracing::error!(%error, "cannot watch the storage; reads and watches are stale until it recovers");
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Reloads everything and applies the differences in the order of their revisions. Watchers miss objects that
    /// were created and deleted in between, and all writes of an object but the last.
    pub(super) async fn resync(&mut self) -> Result<(), Error> {
        let store = self.store.clone();
        let mut pages = Pages::of(store.as_ref(), key::PREFIX).await?;
        let mut here = BTreeSet::new();
        let mut written = Vec::new();
        while let Some(entries) = pages.next().await? {
            for entry in entries {
                here.insert(entry.key.clone());
                // Pages are read at different revisions. Entries newer than the first page arrive again as
                // watch events.
                if entry.modified > self.revision && entry.modified <= pages.revision {
                    written.push(entry);
                }
            }
        }
        written.sort_by_key(|entry| entry.modified);
        let mut changes: Vec<StorageEvent> = written
            .iter()
            .filter_map(|entry| read(&self.rows, entry))
            .map(|(stored, object)| StorageEvent::Put { resource: stored.to_owned(), object })
            .collect();
        for (stored, _) in self.rows.stored() {
            for object in self.cache.list(stored, &Scope::All).objects {
                let (namespace, name) = (object.namespace(), object.name());
                if !here.contains(key::of(stored, namespace, name).as_str()) {
                    changes.push(deletion(key::Place { stored, namespace, name }));
                }
            }
        }
        self.advance(pages.revision, changes);
        Ok(())
    }

    /// Applies storage events until the storage ends the watch or the registry is dropped.
    pub(super) async fn follow(&mut self) -> Result<(), Error> {
        let mut batches = self.store.watch(self.revision).await?.ready_chunks(MAX_BATCHES);
        loop {
            tokio::select! {
                batches = batches.next() => match batches {
                    Some(batches) => self.apply(batches)?,
                    None => return Ok(()),
                },
                update = self.updates.recv() => match update {
                    Some(update) => self.change(update).await,
                    None => return Ok(()),
                },
            }
        }
    }

    /// Applies batches until the first error.
    fn apply(&mut self, batches: Vec<Result<Arc<Batch>, Error>>) -> Result<(), Error> {
        let mut steps = Vec::with_capacity(batches.len());
        let mut ended = Ok(());
        for batch in batches {
            match batch {
                // Decoded before the cache is locked.
                Ok(batch) => steps.push((batch.revision, self.changes(&batch))),
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        self.advance_all(steps);
        ended
    }

    fn changes(&self, batch: &Batch) -> Vec<StorageEvent> {
        let changes = batch.events.iter().filter_map(|event| {
            let place = key::parse(&event.key)?;
            let fields = self.rows.fields(place.stored)?;
            match &event.change {
                Change::Put { value, .. } => {
                    let object = self.handoff.find(&event.key, value, fields, batch.revision);
                    let object = object.or_else(|| decode(&event.key, value, fields, batch.revision))?;
                    Some(StorageEvent::Put { resource: place.stored.to_owned(), object })
                }
                Change::Delete { .. } => Some(deletion(place)),
            }
        });
        changes.collect()
    }

    fn advance(&mut self, revision: Revision, changes: Vec<StorageEvent>) {
        self.advance_all(vec![(revision, changes)]);
    }

    fn advance_all(&mut self, steps: Vec<(Revision, Vec<StorageEvent>)>) {
        self.revision = steps.last().map_or(self.revision, |(revision, _)| *revision);
        self.cache.apply_all(steps);
        self.publish_rows();
    }

    /// Starts a row update.
    async fn change(&mut self, update: RowsUpdate) {
        match self.load(&update.rows).await {
            Ok(complete_at) => {
                self.rows = update.rows.clone();
                self.waiting = Some((complete_at, update));
                self.publish_rows();
            }
            // The receiver may be gone.
            Err(error) => drop(update.done.send(Err(error))),
        }
    }

    /// Loads the stored objects of new resources. Returns the revision at which the cache will be complete.
    async fn load(&self, rows: &Rows) -> Result<Revision, Error> {
        let mut complete_at = self.revision;
        for (stored, fields) in rows.stored() {
            if self.rows.fields(stored) == Some(fields) {
                continue;
            }
            let prefix = key::prefix(stored);
            let mut pages = Pages::of(self.store.as_ref(), &prefix).await?;
            let mut objects = Vec::new();
            while let Some(entries) = pages.next().await? {
                // Later writes arrive as watch events.
                let old = entries.iter().filter(|entry| entry.modified <= self.revision);
                objects
                    .extend(old.filter_map(|entry| decode(&entry.key, &entry.value, fields, entry.modified)));
            }
            self.cache.replace_resource(stored, objects, pages.revision);
            complete_at = complete_at.max(pages.revision);
        }
        Ok(complete_at)
    }

    /// Publishes rows whose objects are all cached, and drops the objects of removed rows.
    fn publish_rows(&mut self) {
        let revision = self.revision;
        let Some((_, update)) = self.waiting.take_if(|(complete_at, _)| *complete_at <= revision) else {
            return;
        };
        let before = self.catalog.rows();
        self.catalog.publish(update.rows.clone());
        for (stored, _) in before.stored().filter(|(stored, _)| !update.rows.holds(stored)) {
            self.cache.remove_resource(stored);
        }
        // The receiver may be gone.
        drop(update.done.send(Ok(())));
    }
}

/// The deletion event of an object.
fn deletion(place: key::Place<'_>) -> StorageEvent {
    let key::Place { stored, namespace, name } = place;
    StorageEvent::Delete {
        resource: stored.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// The resource and the object of an entry.
fn read<'a>(rows: &Rows, entry: &'a Entry) -> Option<(&'a str, Object)> {
    let place = key::parse(&entry.key)?;
    let fields = rows.fields(place.stored)?;
    Some((place.stored, decode(&entry.key, &entry.value, fields, entry.modified)?))
}

/// Decodes an object; logs an error and returns `None` if the value is not one.
pub(super) fn decode(key: &str, value: &Bytes, fields: &Fields, revision: Revision) -> Option<Object> {
    match serde_json::from_slice::<Map<String, Value>>(value) {
        Ok(object) => Some(Draft::new(&object, fields).at(revision)),
        Err(error) => {
            tracing::error!(key, %error, "ignoring a stored value that is not an object");
            None
        }
    }
}

/// Entries per page.
const PAGE_ENTRIES: usize = 1000;

/// Iterates over all entries under a prefix. Pages are read at different revisions. A watch from
/// [`Pages::revision`] makes the result consistent.
struct Pages<'a> {
    store: &'a dyn Store,
    prefix: &'a str,
    /// Revision of the first page.
    revision: Revision,
    ready: Option<Page>,
    after: Option<Arc<str>>,
}

impl<'a> Pages<'a> {
    /// Reads the first page.
    async fn of(store: &'a dyn Store, prefix: &'a str) -> Result<Self, Error> {
        let first = store.range(prefix, None, PAGE_ENTRIES).await?;
        Ok(Self { store, prefix, revision: first.revision, ready: Some(first), after: None })
    }

    /// The next entries; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        let page = match (self.ready.take(), self.after.take()) {
            (Some(page), _) => page,
            (None, Some(after)) => self.store.range(self.prefix, Some(&after), PAGE_ENTRIES).await?,
            (None, None) => return Ok(None),
        };
        if page.more {
            self.after = page.entries.last().map(|last| last.key.clone());
        }
        Ok(Some(page.entries))
    }
}
