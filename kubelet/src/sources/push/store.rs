//! The store of pushed objects behind the API of the node: files on disk, and the cache that the API serves.
//!
//! A commit is on disk before the cache shows it. The kubelet writes the status of pods to the same cache, so a commit
//! keeps the status that the cache has at that moment.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apiserver::Catalog;
use apiserver::registry::{Place, key_of, parse_key};
use apiserver::storage::{
    Batches, Compare, Entry, Error, Expected, Found as FoundEntry, Outcome, Page, Revision, Store,
    Transaction, Write,
};
use apiserver::watch_cache::{Draft, Object, WatchCache};
use async_trait::async_trait;
use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::files::{self, Damage, Files};
use super::{CONFIG_MAPS, ORIGIN, PODS, SECRETS, SERVICES};
use crate::desired::{Completeness, Found, Snapshot, SourceKind, SourceObject};
use crate::disk;
use crate::sources::identity;

/// The pushed objects of this node. Clones share them.
#[derive(Clone, Debug)]
pub struct PushedObjects {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    files: Files,
    cache: WatchCache,
    catalog: Catalog,
    /// Locked during a commit, so that compares, file and cache agree.
    committing: tokio::sync::Mutex<()>,
    /// All pushed objects by key. `None` for kinds that pods do not use, such as Namespaces.
    present: Mutex<BTreeMap<String, Option<SourceObject>>>,
    snapshots: watch::Sender<Arc<Snapshot>>,
}

impl PushedObjects {
    /// Loads the pushed objects of a root directory into the cache. Also returns the files that cannot be used.
    pub fn open(root_dir: &Path, cache: WatchCache, catalog: Catalog) -> (Self, Vec<Damage>) {
        let files = Files::new(root_dir);
        let loaded = files.load().unwrap_or_else(|error| {
            let damage = Damage::unreadable(&files.path("").with_file_name(""), &error);
            files::Loaded { damaged: vec![damage], ..files::Loaded::default() }
        });
        let mut damaged = loaded.damaged;
        let (snapshots, _) = watch::channel(Arc::new(empty(Completeness::Incomplete)));
        let inner = Inner {
            files,
            cache,
            catalog,
            committing: tokio::sync::Mutex::default(),
            present: Mutex::default(),
            snapshots,
        };
        for (path, value) in loaded.objects {
            if let Err(why) = inner.load(&path, &value) {
                damaged.push(files::set_aside(&path, why));
            }
        }
        // A pod must not end because its file cannot be used.
        let is_complete = damaged.is_empty();
        inner.snapshots.send_replace(Arc::new(empty(if is_complete {
            Completeness::Complete
        } else {
            Completeness::Incomplete
        })));
        inner.publish();
        (Self { inner: Arc::new(inner) }, damaged)
    }

    /// The latest snapshot. Each commit sends one, also for objects that pods do not use.
    pub fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.inner.snapshots.subscribe()
    }

    /// Whether an object was pushed.
    pub fn contains(&self, stored: &str, namespace: &str, name: &str) -> bool {
        self.inner.present().contains_key(&key_of(stored, namespace, name))
    }

    /// Namespace and name of all pushed objects of a resource, in a namespace.
    pub fn names(&self, stored: &str, namespace: &str) -> Vec<String> {
        let prefix = key_of(stored, namespace, "");
        let present = self.inner.present();
        let keys = present.keys().filter_map(|key| key.strip_prefix(&prefix));
        keys.map(str::to_owned).collect()
    }

    /// The cache that the API serves.
    pub fn cache(&self) -> &WatchCache {
        &self.inner.cache
    }
}

impl Inner {
    fn present(&self) -> MutexGuard<'_, BTreeMap<String, Option<SourceObject>>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an object from its file.
    fn load(&self, path: &Path, value: &[u8]) -> Result<(), String> {
        let object = object_of(value)?;
        let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let rows = self.catalog.rows();
        let row =
            rows.all().iter().find(|row| row.api_version() == text("apiVersion") && row.kind == text("kind"));
        let row = row.ok_or_else(|| format!("this kubelet does not know the kind {}", text("kind")))?;
        let key = key_of(row.stored(), metadata_text(&object, "namespace"), metadata_text(&object, "name"));
        if self.files.path(&key) != path {
            return Err("its name does not belong to the object in it".to_owned());
        }
        let place = parse_key(&key).ok_or("the object has no name")?;
        let source_object = source_object(&place, &object, None)?;
        self.show(&place, object);
        self.present().insert(key.clone(), source_object);
        Ok(())
    }

    fn current(&self, key: &str) -> Option<Object> {
        let Place { stored, namespace, name } = parse_key(key)?;
        self.cache.get(stored, namespace, name)
    }

    /// Puts an object into the cache. A pod keeps the status that the kubelet has reported.
    fn show(&self, place: &Place<'_>, mut object: Map<String, Value>) -> Revision {
        let fields = self.catalog.rows().fields(place.stored).cloned().unwrap_or_default();
        self.cache.update(place.stored, place.namespace, place.name, |current| {
            if place.stored == PODS
                && let Some(current) =
                    current.filter(|current| current.uid() == metadata_text(&object, "uid"))
                && let Some(status) = current.decode().remove("status")
            {
                object.insert("status".to_owned(), status);
            }
            Some(Draft::new(&object, &fields))
        })
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, Error> {
        let _turn = self.committing.lock().await;
        for Compare { key, expected } in &transaction.compares {
            let current = self.current(key);
            let holds = match expected {
                Expected::Absent => current.is_none(),
                Expected::Modified(revision) => {
                    current.as_ref().is_some_and(|current| current.revision() == *revision)
                }
                Expected::Any => true,
            };
            if !holds {
                return Ok(Outcome::Conflict {
                    key: key.clone(),
                    current: current.map(|it| entry(key, &it)),
                });
            }
        }
        let mut revision = self.cache.revision();
        for write in transaction.writes {
            revision = match write {
                Write::Put { key, value } => self.put(&key, value).await?,
                Write::Delete { key } => self.delete(&key).await?,
            };
        }
        self.publish();
        Ok(Outcome::Committed { revision })
    }

    async fn put(&self, key: &Arc<str>, value: Bytes) -> Result<Revision, Error> {
        let place = parse_key(key).ok_or_else(|| Error::Invalid(format!("{key} is no key of an object")))?;
        let object = object_of(&value).map_err(Error::Invalid)?;
        let known = self.present().get(&**key).cloned().flatten();
        let source_object = source_object(&place, &object, known).map_err(Error::Invalid)?;
        self.on_disk(key, move |files, key| files.save(key, &value)).await?;
        let revision = self.show(&place, object);
        self.present().insert(key.to_string(), source_object);
        Ok(revision)
    }

    async fn delete(&self, key: &Arc<str>) -> Result<Revision, Error> {
        self.on_disk(key, Files::remove).await?;
        self.present().remove(&**key);
        let deleted = parse_key(key)
            .and_then(|Place { stored, namespace, name }| self.cache.delete(stored, namespace, name));
        Ok(deleted.map_or_else(|| self.cache.revision(), |object| object.revision()))
    }

    /// Changes a file on a blocking thread.
    async fn on_disk(
        &self,
        key: &Arc<str>,
        change: impl FnOnce(&Files, &str) -> io::Result<()> + Send + 'static,
    ) -> Result<(), Error> {
        let file = self.files.path(key);
        let (files, key) = (self.files.clone(), key.clone());
        let changed = disk::run(move || change(&files, &key)).await;
        changed.map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::Full { file, source: Arc::new(error) }
            }
            _ => {
                let reason = format!("it cannot be written: {error}");
                Error::Failed { file, reason, source: Some(Arc::new(error)) }
            }
        })
    }

    /// Sends the current objects to the merge of all sources.
    fn publish(&self) {
        let completeness = self.snapshots.borrow().completeness;
        let present = self.present();
        let objects = present.values().flatten().map(|object| Found {
            name: Arc::new(object.object_name()),
            object: object.clone(),
            origin: ORIGIN.into(),
        });
        let snapshot = Snapshot { objects: objects.collect(), ..empty(completeness) };
        self.snapshots.send_replace(Arc::new(snapshot));
    }
}

fn empty(completeness: Completeness) -> Snapshot {
    Snapshot {
        source: SourceKind::Push,
        objects: Vec::new(),
        waiting: Default::default(),
        problems: Vec::new(),
        skipped: Vec::new(),
        completeness,
    }
}

fn entry(key: &Arc<str>, object: &Object) -> Entry {
    let (value, modified) = (object.json().clone(), object.revision());
    Entry { key: key.clone(), value, created: modified, modified }
}

fn object_of(value: &[u8]) -> Result<Map<String, Value>, String> {
    serde_json::from_slice(value).map_err(|error| format!("it is no JSON object: {error}"))
}

fn metadata_text<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    let metadata = object.get("metadata").and_then(|metadata| metadata.get(field));
    metadata.and_then(Value::as_str).unwrap_or_default()
}

/// The object as pods use it. Returns the known object if nothing changed that pods can notice, so that equal pointers
/// mean "unchanged".
fn source_object(
    place: &Place<'_>,
    object: &Map<String, Value>,
    known: Option<SourceObject>,
) -> Result<Option<SourceObject>, String> {
    let mut new = match place.stored {
        PODS => SourceObject::Pod(Arc::new(identity::place_pushed(typed(object)?))),
        CONFIG_MAPS => SourceObject::ConfigMap(Arc::new(typed(object)?)),
        SECRETS => SourceObject::Secret(Arc::new(typed(object)?)),
        SERVICES => SourceObject::Service(Arc::new(typed(object)?)),
        _ => return Ok(None),
    };
    match &mut new {
        SourceObject::ConfigMap(map) => forget_record(&mut Arc::make_mut(map).metadata),
        SourceObject::Secret(secret) => forget_record(&mut Arc::make_mut(secret).metadata),
        SourceObject::Service(service) => forget_record(&mut Arc::make_mut(service).metadata),
        _ => {}
    }
    Ok(Some(known.filter(|known| *known == new).unwrap_or(new)))
}

/// Drops the fields that change with every write.
fn forget_record(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    metadata.resource_version = None;
}

fn typed<T: DeserializeOwned>(object: &Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(object.clone())).map_err(|error| error.to_string())
}

/// The error of operations that only a store with a log has.
fn has_no_log<T>() -> Result<T, Error> {
    Err(Error::Invalid("the store of pushed objects has no log: read the cache".to_owned()))
}

#[async_trait]
impl Store for PushedObjects {
    async fn get(&self, key: &str) -> Result<FoundEntry, Error> {
        let key: Arc<str> = key.into();
        let entry = self.inner.current(&key).map(|object| entry(&key, &object));
        Ok(FoundEntry { entry, revision: self.inner.cache.revision() })
    }

    async fn range(&self, _: &str, _: Option<&str>, _: usize) -> Result<Page, Error> {
        has_no_log()
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, Error> {
        // A task of its own: a client that closes its connection must not separate the file from the cache.
        let inner = self.inner.clone();
        tokio::spawn(async move { inner.commit(transaction).await }).await.unwrap_or(Err(Error::Closed))
    }

    async fn commit_deferred(&self, transaction: Transaction) -> Result<Outcome, Error> {
        self.commit(transaction).await
    }

    async fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn watch(&self, _: Revision) -> Result<Batches, Error> {
        has_no_log()
    }

    async fn compact(&self, _: Revision) -> Result<(), Error> {
        has_no_log()
    }

    async fn revision(&self) -> Result<Revision, Error> {
        Ok(self.inner.cache.revision())
    }

    async fn check_health(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn backup(&self, _: &Path) -> Result<(), Error> {
        has_no_log()
    }
}
