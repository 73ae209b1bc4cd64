//! Objects written through a durable store and read from the cache above it.
//!
//! A write is a transaction on the revision it was decided on. What has been written comes back through the store's own
//! watch, in order, into the cache; a write returns once the cache holds it, so that whoever wrote it can read it. An
//! object is encoded once: what a writer has encoded is what the cache keeps.

mod follow;
mod key;
mod left;
mod pages;
mod past;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};

use self::follow::{Follower, Wish};
use self::left::Left;
use crate::catalog::{Catalog, Defined, Rows};
use crate::resource::{Fields, Resource};
use crate::storage::{self, Compare, Expected, Outcome, Revision, Store, Transaction};
use crate::store::{Content, Draft, Memory, Object};

/// How often an object is put into a namespace that somebody else is writing.
const TRIES: usize = 5;
/// The name of namespaces in the store.
const NAMESPACES: &str = "namespaces";
/// Changes of rows on their way to the follower; they are made one after another.
const WISHES: usize = 1;

/// The objects of an API server.
pub struct Registry {
    store: Arc<dyn Store>,
    cache: Memory,
    left: Left,
    catalog: Catalog,
    /// What is defined beyond the rows of the program.
    defined: Mutex<Defined>,
    wishes: mpsc::Sender<Wish>,
    /// Whoever reads the past; all others wait for it.
    recalling: Mutex<()>,
}

/// Why an object was not written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// There is one of that name already.
    #[error("it exists already")]
    Exists,
    /// Somebody else wrote it meanwhile: read it again and decide anew.
    #[error("it has been changed or deleted meanwhile")]
    Changed,
    /// The namespace it would lie in is on its way out, or gone.
    #[error("its namespace is being terminated")]
    Ending,
    /// The store failed; what the caller may do, its advice says.
    #[error(transparent)]
    Store(Arc<storage::Error>),
}

/// When a write is safe from a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durable {
    /// Before it is answered.
    First,
    /// When the store finds time for it.
    Later,
}

impl From<storage::Error> for Error {
    fn from(error: storage::Error) -> Self {
        Self::Store(Arc::new(error))
    }
}

impl Registry {
    /// Reads everything in the store and follows it from there, until dropped.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn open(store: Arc<dyn Store>, catalog: Catalog) -> Result<Arc<Self>, storage::Error> {
        let rows = catalog.rows();
        let (cache, revision) = follow::fill(store.as_ref(), &rows).await?;
        let (wishes, received) = mpsc::channel(WISHES);
        let left = Left::default();
        let follower = Follower {
            store: store.clone(),
            cache: cache.clone(),
            left: left.clone(),
            catalog: catalog.clone(),
            rows,
            revision,
            wishes: received,
            waiting: None,
        };
        tokio::spawn(follower.run());
        let (defined, recalling) = (Mutex::default(), Mutex::default());
        Ok(Arc::new(Self { store, cache, left, catalog, defined, wishes, recalling }))
    }

    /// Where objects are read.
    pub fn cache(&self) -> &Memory {
        &self.cache
    }

    /// The resources that are kept.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Looks in the log of the store for what happened to a resource before this server began, so that watches go on from
    /// there; false when that has been looked for.
    pub async fn recall(&self, stored: &str) -> bool {
        let lacks = || self.cache.without_past().iter().any(|(lacking, _)| lacking == stored);
        if !lacks() {
            return false;
        }
        let Ok(_alone) = self.recalling.try_lock() else {
            // What comes of it for whoever was first is the same for all who wait: one log is not read for each of them.
            drop(self.recalling.lock().await);
            return !lacks();
        };
        let read = past::take_in(self.store.as_ref(), &self.cache, self.rows()).await;
        read.inspect_err(|error| tracing::warn!(%error, "the log cannot be read; clients list instead"))
            .is_ok()
    }

    /// One object, though it was written so lately by another server on the same store that the cache has not heard of it.
    ///
    /// # Errors
    /// When the store cannot be read.
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
        self.cache.reached(entry.modified).await;
        Ok(self.cache.get(stored, namespace, name))
    }

    /// All resources as they are now.
    pub fn rows(&self) -> Arc<Rows> {
        self.catalog.rows()
    }

    /// Serves these rows in place of those that `owner` gave before; none of them ends it. Returns once they are served,
    /// with everything the store already holds of them. Watches of a resource that goes, or whose field selectors
    /// change, are closed.
    ///
    /// # Errors
    /// When the store cannot be read; what was served before goes on, and trying again is right.
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
            // The follower goes only after the registry, and a wish that a later one overtook is part of that one.
            let _ = self.wishes.send(Wish { rows, done }).await;
            answer
        };
        answer.await.unwrap_or(Ok(())).map_err(Error::from)
    }

    /// Writes an object that must not be there yet, in a namespace that is not on its way out at that moment.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Ending`], [`Error::Changed`] when others write the namespace all the time, or what is
    /// wrong with the store.
    pub async fn create<'a>(
        &self,
        resource: &Resource,
        content: impl Into<Content<'a>>,
    ) -> Result<Object, Error> {
        let content = content.into();
        let mut was_there = false;
        for _ in 0..TRIES {
            let draft = Draft::new(content, &self.fields(resource));
            let key = key::of(resource.stored(), draft.namespace(), draft.name());
            let namespace = self.cache.get(NAMESPACES, "", draft.namespace());
            if namespace.as_ref().map_or(was_there, Object::is_doomed) {
                return Err(Error::Ending);
            }
            was_there = namespace.is_some();
            let left = self.left.leave(&key, draft);
            let mut transaction = Transaction::put(&key, Expected::Absent, left.bytes());
            if let Some(namespace) = &namespace {
                let key = key::of(NAMESPACES, "", namespace.name()).into();
                transaction
                    .compares
                    .push(Compare { key, expected: Expected::Modified(namespace.revision()) });
            }
            match self.commit(transaction, Error::Exists).await {
                Ok(revision) => return Ok(left.at(revision)),
                // It is the namespace that has changed, perhaps no more than its labels.
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

    /// Writes an object over the one it was made from.
    ///
    /// # Errors
    /// [`Error::Changed`], or what is wrong with the store.
    pub async fn replace<'a>(
        &self,
        resource: &Resource,
        before: &Object,
        content: impl Into<Content<'a>>,
    ) -> Result<Object, Error> {
        self.overwrite(resource, before, content.into(), Durable::First).await
    }

    /// The same for an object that says nothing new but that somebody is still there: it is answered at once, and what a
    /// crash may cost is the last of such writes.
    ///
    /// # Errors
    /// As of [`Self::replace`].
    pub async fn renew<'a>(
        &self,
        resource: &Resource,
        before: &Object,
        content: impl Into<Content<'a>>,
    ) -> Result<Object, Error> {
        self.overwrite(resource, before, content.into(), Durable::Later).await
    }

    /// Takes an object out.
    ///
    /// # Errors
    /// [`Error::Changed`], or what is wrong with the store.
    pub async fn delete(&self, resource: &Resource, object: &Object) -> Result<(), Error> {
        let key = key::of(resource.stored(), object.namespace(), object.name());
        let expected = Expected::Modified(object.revision());
        self.commit(Transaction::delete(&key, expected), Error::Changed).await.map(drop)
    }

    async fn overwrite(
        &self,
        resource: &Resource,
        before: &Object,
        content: Content<'_>,
        durable: Durable,
    ) -> Result<Object, Error> {
        let draft = Draft::new(content, &self.fields(resource));
        if before.is(&draft) {
            return Ok(before.clone());
        }
        let key = key::of(resource.stored(), draft.namespace(), draft.name());
        let left = self.left.leave(&key, draft);
        let transaction = Transaction::put(&key, Expected::Modified(before.revision()), left.bytes());
        let outcome = match durable {
            Durable::First => self.store.commit(transaction).await?,
            Durable::Later => self.store.commit_late(transaction).await?,
        };
        let revision = self.settled(outcome, Error::Changed).await?;
        Ok(left.at(revision))
    }

    /// What field selectors ask of the resource's objects, in any of its versions.
    fn fields(&self, resource: &Resource) -> Fields {
        self.rows().fields(resource.stored()).unwrap_or(&resource.fields).clone()
    }

    async fn commit(&self, transaction: Transaction, otherwise: Error) -> Result<Revision, Error> {
        let outcome = self.store.commit(transaction).await?;
        self.settled(outcome, otherwise).await
    }

    /// Waits until the cache has what became of a transaction.
    async fn settled(&self, outcome: Outcome, otherwise: Error) -> Result<Revision, Error> {
        match outcome {
            Outcome::Committed { revision } => {
                self.cache.reached(revision).await;
                Ok(revision)
            }
            Outcome::Conflict { current, .. } => {
                // Whoever decides anew is to decide on what stood in the way.
                let revision = match current {
                    Some(entry) => entry.modified,
                    None => self.store.revision().await?,
                };
                self.cache.reached(revision).await;
                Err(otherwise)
            }
        }
    }
}
