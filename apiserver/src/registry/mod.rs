//! Registry: writes objects to durable storage and reads them from the watch cache.
//!
//! A write is a transaction, based on the revision that was read. It returns once the watch of the storage has
//! delivered it to the cache, so that the client can read its own write. An object is encoded once, by its writer.

mod cache_updater;
mod handoff;
mod key;
mod size;
#[cfg(test)]
mod tests;
mod watch_history;

use std::sync::Arc;

use http::StatusCode;
use tokio::sync::{Mutex, mpsc, oneshot};

use self::cache_updater::{CacheUpdater, RowsUpdate};
use self::handoff::Handoff;
pub use self::key::{Place, of as key_of, parse as parse_key};
use crate::catalog::{Catalog, Defined, Rows};
use crate::resource::{Fields, Resource};
use crate::status::Status;
use crate::storage::{self, Compare, Expected, Outcome, Revision, Store, Transaction};
use crate::tasks;
use crate::watch_cache::{Content, Draft, Object, WatchCache};

/// Maximum number of attempts to create an object while its namespace is being updated.
const MAX_ATTEMPTS: usize = 5;
/// Storage name of namespaces.
const NAMESPACES: &str = "namespaces";
/// Capacity of the channel of row updates, which are applied one at a time.
const UPDATES: usize = 1;

/// The storage and the watch cache of all objects.
pub struct Registry {
    store: Arc<dyn Store>,
    cache: WatchCache,
    handoff: Handoff,
    catalog: Catalog,
    /// The rows of custom resources.
    defined: Mutex<Defined>,
    updates: mpsc::Sender<RowsUpdate>,
    /// Locked while the watch history is loaded.
    loading_history: Mutex<()>,
}

/// The reason why an object was not written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// An object with this name exists.
    #[error("the object already exists")]
    Exists,
    /// Another write changed or deleted the object: read it again and retry.
    #[error("the object was changed or deleted concurrently")]
    Changed,
    /// The namespace is missing or terminating.
    #[error("the namespace is being terminated")]
    NamespaceTerminating,
    /// The object exceeds the size limit.
    #[error("the object has {bytes} bytes, the limit is {}", size::MAX_OBJECT_BYTES)]
    TooLarge {
        /// Size in bytes.
        bytes: usize,
    },
    /// The storage failed; see [`storage::Error::advice`].
    #[error(transparent)]
    Store(Arc<storage::Error>),
}

/// When a write becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durable {
    /// The write is durable before the response.
    First,
    /// The write becomes durable after the response.
    Later,
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        match error {
            Error::TooLarge { .. } => Self::object_too_large(error),
            Error::Store(error) => error.as_ref().into(),
            Error::Exists | Error::Changed | Error::NamespaceTerminating => {
                Self::new(StatusCode::CONFLICT, "Conflict", error.to_string())
            }
        }
    }
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Self {
        Self::Store(Arc::new(error))
    }
}

impl Registry {
    /// Loads all objects and watches the storage until the registry is dropped.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub async fn open(store: Arc<dyn Store>, catalog: Catalog) -> Result<Arc<Self>, storage::Error> {
        let rows = catalog.rows();
        let (cache, revision) = cache_updater::fill(store.as_ref(), &rows).await?;
        let (updates, received) = mpsc::channel(UPDATES);
        let handoff = Handoff::default();
        let updater = CacheUpdater {
            store: store.clone(),
            cache: cache.clone(),
            handoff: handoff.clone(),
            catalog: catalog.clone(),
            rows,
            revision,
            updates: received,
            waiting: None,
        };
        tasks::supervise("cache updater", updater.run());
        let (defined, loading_history) = (Mutex::default(), Mutex::default());
        Ok(Arc::new(Self { store, cache, handoff, catalog, defined, updates, loading_history }))
    }

    /// Creates a registry over a store that applies its commits to the cache itself, before it answers. Nothing
    /// watches this store.
    pub fn over(store: Arc<dyn Store>, cache: WatchCache, catalog: Catalog) -> Arc<Self> {
        let (defined, loading_history) = (Mutex::default(), Mutex::default());
        let (updates, _) = mpsc::channel(UPDATES);
        Arc::new(Self {
            store,
            cache,
            handoff: Handoff::default(),
            catalog,
            defined,
            updates,
            loading_history,
        })
    }

    /// The watch cache.
    pub fn cache(&self) -> &WatchCache {
        &self.cache
    }

    /// The served resources.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Loads the watch history of a resource from before this server started. Returns false if it was loaded
    /// before, or the load fails.
    pub async fn load_history(&self, stored: &str) -> bool {
        let lacks = || self.cache.without_history().iter().any(|(lacking, _)| lacking == stored);
        if !lacks() {
            return false;
        }
        let Ok(_alone) = self.loading_history.try_lock() else {
            // Concurrent callers wait for the first one and share its result.
            drop(self.loading_history.lock().await);
            return !lacks();
        };
        let read = watch_history::load(self.store.as_ref(), &self.cache, self.rows()).await;
        read.inspect_err(|error| tracing::warn!(%error, "cannot load watch history from the storage log; clients list instead"))
            .is_ok()
    }

    /// Reads an object from the cache, or from the storage if another server has just created it.
    ///
    /// # Errors
    /// If the storage cannot be read.
    pub async fn read(
        &self,
        stored: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>, storage::Error> {
        if let Some(found) = self.cache.get(stored, namespace, name) {
            return Ok(Some(found));
        }
        let found = self.store.get(&key::of(stored, namespace, name)).await?;
        let Some(entry) = found.entry else { return Ok(None) };
        self.cache.wait_for_revision(entry.modified).await;
        Ok(self.cache.get(stored, namespace, name))
    }

    /// Returns the served resources and their groups as they are now.
    pub fn rows(&self) -> Arc<Rows> {
        self.catalog.rows()
    }

    /// Replaces the rows of `owner`; an empty list removes them. Returns when the rows are served and their stored
    /// objects are cached. Watches of removed resources, and of resources whose selectable fields change, are
    /// closed.
    ///
    /// # Errors
    /// If the storage cannot be read. The previous rows stay in place, and the caller may retry.
    pub async fn serve(&self, owner: &str, rows: Vec<Resource>) -> Result<(), Error> {
        let answer = {
            let mut defined = self.defined.lock().await;
            if rows.is_empty() {
                defined.remove(owner);
            } else {
                defined.insert(owner.to_owned(), rows.into_iter().map(Arc::new).collect());
            }
            let (done, answer) = oneshot::channel();
            let rows = Arc::new(self.catalog.with(&defined));
            // The updater outlives the registry. A superseded update is part of the later one.
            let _ = self.updates.send(RowsUpdate { rows, done }).await;
            answer
        };
        answer.await.unwrap_or(Ok(())).map_err(Error::from)
    }

    /// Creates an object in a namespace that is not terminating.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NamespaceTerminating`], [`Error::Changed`] if the namespace changes on every
    /// attempt, or a storage error.
    pub async fn create<'a>(
        &self,
        resource: &Resource,
        content: impl Into<Content<'a>>,
    ) -> Result<Object, Error> {
        let content = content.into();
        let mut was_there = false;
        for _ in 0..MAX_ATTEMPTS {
            let draft = Draft::new(content, &self.fields(resource));
            size::check(&draft, None)?;
            let key = key::of(resource.stored(), draft.namespace(), draft.name());
            let namespace = self.cache.get(NAMESPACES, "", draft.namespace());
            if namespace.as_ref().map_or(was_there, Object::is_terminating) {
                return Err(Error::NamespaceTerminating);
            }
            was_there = namespace.is_some();
            let handoff = self.handoff.park(&key, draft);
            let mut transaction = Transaction::put(&key, Expected::Absent, handoff.bytes());
            if let Some(namespace) = &namespace {
                let key = key::of(NAMESPACES, "", namespace.name()).into();
                transaction
                    .compares
                    .push(Compare { key, expected: Expected::Modified(namespace.revision()) });
            }
            match self.commit(transaction, Error::Exists).await {
                Ok(revision) => return Ok(handoff.at(revision)),
                // The conflict was with the namespace, perhaps only its labels: retry.
                Err(Error::Exists)
                    if namespace.is_some_and(|before| {
                        let now = self.cache.get(NAMESPACES, "", before.name());
                        now.is_none_or(|now| now.revision() != before.revision())
                    }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Changed)
    }

    /// Replaces an object if it still has the revision of `before`.
    ///
    /// # Errors
    /// [`Error::Changed`], or a storage error.
    pub async fn replace<'a>(
        &self,
        resource: &Resource,
        before: &Object,
        content: impl Into<Content<'a>>,
    ) -> Result<Object, Error> {
        self.overwrite(resource, before, content.into(), Durable::First).await
    }

    /// Does the same as [`Self::replace`], for heartbeats: returns before the write is durable. A crash may lose
    /// the last of these writes.
    ///
    /// # Errors
    /// The same as [`Self::replace`].
    pub async fn renew<'a>(
        &self,
        resource: &Resource,
        before: &Object,
        content: impl Into<Content<'a>>,
    ) -> Result<Object, Error> {
        self.overwrite(resource, before, content.into(), Durable::Later).await
    }

    /// Deletes an object and returns the revision of the deletion.
    ///
    /// # Errors
    /// [`Error::Changed`], or a storage error.
    pub async fn delete(&self, resource: &Resource, object: &Object) -> Result<Revision, Error> {
        let key = key::of(resource.stored(), object.namespace(), object.name());
        let expected = Expected::Modified(object.revision());
        self.commit(Transaction::delete(&key, expected), Error::Changed).await
    }

    async fn overwrite(
        &self,
        resource: &Resource,
        before: &Object,
        content: Content<'_>,
        durable: Durable,
    ) -> Result<Object, Error> {
        let draft = Draft::new(content, &self.fields(resource));
        if before.equals(&draft) {
            return Ok(before.clone());
        }
        size::check(&draft, Some(before))?;
        let key = key::of(resource.stored(), draft.namespace(), draft.name());
        let handoff = self.handoff.park(&key, draft);
        let transaction = Transaction::put(&key, Expected::Modified(before.revision()), handoff.bytes());
        let outcome = match durable {
            Durable::First => self.store.commit(transaction).await?,
            Durable::Later => self.store.commit_deferred(transaction).await?,
        };
        let revision = self.settled(outcome, Error::Changed).await?;
        Ok(handoff.at(revision))
    }

    /// The selectable fields of a stored resource in all its versions.
    fn fields(&self, resource: &Resource) -> Fields {
        self.rows().fields(resource.stored()).unwrap_or(&resource.fields).clone()
    }

    async fn commit(&self, transaction: Transaction, conflict_error: Error) -> Result<Revision, Error> {
        let outcome = self.store.commit(transaction).await?;
        self.settled(outcome, conflict_error).await
    }

    /// Waits until the cache has reached the result of a transaction, and returns its revision.
    async fn settled(&self, outcome: Outcome, conflict_error: Error) -> Result<Revision, Error> {
        match outcome {
            Outcome::Committed { revision } => {
                self.cache.wait_for_revision(revision).await;
                Ok(revision)
            }
            Outcome::Conflict { current, .. } => {
                // A retry must see the conflicting write.
                let revision = match current {
                    Some(entry) => entry.modified,
                    None => self.store.revision().await?,
                };
                self.cache.wait_for_revision(revision).await;
                Err(conflict_error)
            }
        }
    }
}
