//! Objects written through a durable store and read from the cache above it.
//!
//! A write is a transaction on the revision it was decided on. What has been written comes back through the store's own
//! watch, in order, into the cache; a write returns once the cache holds it, so that whoever wrote it can read it.

mod key;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Map, Value};

use crate::resource::Resource;
use crate::storage::{self, Batch, Change, Expected, Outcome, Revision, Store, Transaction};
use crate::store::{Draft, Memory, Object, Scope};

/// Entries read at once when the cache is filled.
const PAGE: usize = 1000;
/// Between two tries to follow a store that does not answer.
const FOLLOW_AGAIN: Duration = Duration::from_millis(200);

/// The objects of an API server.
pub struct Registry {
    store: Arc<dyn Store>,
    cache: Memory,
    resources: &'static [Resource],
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
    /// The store failed; what the caller may do, its advice says.
    #[error(transparent)]
    Store(Arc<storage::Error>),
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
    pub async fn open(
        store: Arc<dyn Store>,
        resources: &'static [Resource],
    ) -> Result<Arc<Self>, storage::Error> {
        let (cache, revision) = fill(store.as_ref(), resources).await?;
        let registry = Arc::new(Self { store, cache, resources });
        let follower =
            Follower { store: registry.store.clone(), cache: registry.cache.clone(), resources, revision };
        tokio::spawn(follower.run(Arc::downgrade(&registry)));
        Ok(registry)
    }

    /// Where objects are read.
    pub fn cache(&self) -> &Memory {
        &self.cache
    }

    /// The resources that are kept.
    pub fn resources(&self) -> &'static [Resource] {
        self.resources
    }

    /// Writes an object that must not be there yet.
    ///
    /// # Errors
    /// [`Error::Exists`], or what is wrong with the store.
    pub async fn create(&self, resource: &Resource, object: &Map<String, Value>) -> Result<Object, Error> {
        self.write(resource, object, Expected::Absent, Error::Exists).await
    }

    /// Writes an object over the one it was made from.
    ///
    /// # Errors
    /// [`Error::Changed`], or what is wrong with the store.
    pub async fn replace(
        &self,
        resource: &Resource,
        before: &Object,
        object: &Map<String, Value>,
    ) -> Result<Object, Error> {
        let draft = Draft::new(object, resource.fields);
        if before.is(&draft) {
            return Ok(before.clone());
        }
        self.write(resource, object, Expected::Modified(before.revision()), Error::Changed).await
    }

    /// Takes an object out.
    ///
    /// # Errors
    /// [`Error::Changed`], or what is wrong with the store.
    pub async fn delete(&self, resource: &Resource, object: &Object) -> Result<(), Error> {
        let key = key::of(resource, object.namespace(), object.name());
        let expected = Expected::Modified(object.revision());
        self.commit(Transaction::delete(&key, expected), Error::Changed).await.map(drop)
    }

    async fn write(
        &self,
        resource: &Resource,
        object: &Map<String, Value>,
        expected: Expected,
        otherwise: Error,
    ) -> Result<Object, Error> {
        let draft = Draft::new(object, resource.fields);
        let key = key::of(resource, draft.namespace(), draft.name());
        let transaction = Transaction::put(&key, expected, Bytes::from(draft.stored()));
        let revision = self.commit(transaction, otherwise).await?;
        Ok(draft.at(revision))
    }

    async fn commit(&self, transaction: Transaction, otherwise: Error) -> Result<Revision, Error> {
        match self.store.commit(transaction).await? {
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

/// Everything there is, and the revision from which to follow.
async fn fill(store: &dyn Store, resources: &[Resource]) -> Result<(Memory, Revision), storage::Error> {
    let mut page = store.range(key::PREFIX, None, PAGE).await?;
    let revision = page.revision;
    let cache = Memory::new(revision);
    loop {
        for entry in &page.entries {
            if let Some((resource, draft)) = read(resources, &entry.key, &entry.value) {
                cache.load(&resource, &draft, entry.modified);
            }
        }
        let Some(last) = page.entries.last().filter(|_| page.more) else { break };
        page = store.range(key::PREFIX, Some(&last.key), PAGE).await?;
    }
    cache.follow_up_to(revision);
    Ok((cache, revision))
}

/// Carries what the store has written into the cache.
struct Follower {
    store: Arc<dyn Store>,
    cache: Memory,
    resources: &'static [Resource],
    revision: Revision,
}

impl Follower {
    /// Follows for as long as there is a registry.
    async fn run(mut self, registry: std::sync::Weak<Registry>) {
        while registry.strong_count() > 0 {
            let ended = match self.follow().await {
                Err(storage::Error::Compacted { .. }) => {
                    tracing::warn!(
                        "the log of the store has moved past what was read of it; reading all of it anew"
                    );
                    self.catch_up().await
                }
                ended => ended,
            };
            if let Err(error) = ended {
                tracing::error!(%error, "the store cannot be followed; reads and watches stand still until it can");
            }
            tokio::time::sleep(FOLLOW_AGAIN).await;
        }
    }

    /// Reads everything, and notes what differs in the order in which it was written. What came and went meanwhile
    /// nobody hears of, nor of more than the last write of an object.
    async fn catch_up(&mut self) -> Result<(), storage::Error> {
        let mut page = self.store.range(key::PREFIX, None, PAGE).await?;
        let revision = page.revision;
        let mut here = BTreeSet::new();
        let mut written = Vec::new();
        loop {
            for entry in &page.entries {
                here.insert(entry.key.clone());
                if entry.modified > self.revision {
                    written.push(entry.clone());
                }
            }
            let Some(last) = page.entries.last().filter(|_| page.more) else { break };
            page = self.store.range(key::PREFIX, Some(&last.key), PAGE).await?;
        }
        written.sort_by_key(|entry| entry.modified);
        // Pages are pictures of different moments: what a later one shows beyond the first comes again as an event.
        for entry in written.iter().filter(|entry| entry.modified <= revision) {
            if let Some((resource, draft)) = read(self.resources, &entry.key, &entry.value) {
                self.cache.follow_put(&resource, &draft, entry.modified);
            }
        }
        for resource in self.resources {
            let name = resource.qualified().to_string();
            for object in self.cache.list(&name, &Scope::All).objects {
                if !here.contains(key::of(resource, object.namespace(), object.name()).as_str()) {
                    self.cache.follow_delete(&name, object.namespace(), object.name(), revision);
                }
            }
        }
        self.revision = revision;
        self.cache.follow_up_to(revision);
        Ok(())
    }

    async fn follow(&mut self) -> Result<(), storage::Error> {
        let mut batches = self.store.watch(self.revision).await?;
        while let Some(batch) = batches.next().await {
            self.apply(batch?.as_ref());
        }
        Ok(())
    }

    fn apply(&mut self, batch: &Batch) {
        for event in &batch.events {
            match &event.change {
                Change::Put { value, .. } => {
                    if let Some((resource, draft)) = read(self.resources, &event.key, value) {
                        self.cache.follow_put(&resource, &draft, batch.revision);
                    }
                }
                Change::Delete => {
                    if let Some(place) = key::parse(self.resources, &event.key) {
                        let resource = place.resource.qualified().to_string();
                        self.cache.follow_delete(&resource, place.namespace, place.name, batch.revision);
                    }
                }
            }
        }
        self.revision = batch.revision;
        self.cache.follow_up_to(batch.revision);
    }
}

/// The resource and the object that stand under a key.
fn read(resources: &[Resource], key: &str, value: &[u8]) -> Option<(String, Draft)> {
    let place = key::parse(resources, key)?;
    match serde_json::from_slice::<Map<String, Value>>(value) {
        Ok(object) => {
            Some((place.resource.qualified().to_string(), Draft::new(&object, place.resource.fields)))
        }
        Err(error) => {
            tracing::error!(key, %error, "the store holds something that is no object; it is not shown");
            None
        }
    }
}
