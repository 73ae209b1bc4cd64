//! Carries what the store has written into the cache, in order, and takes in resources that come while it does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use super::key;
use super::left::Left;
use super::pages::Pages;
use crate::catalog::{Catalog, Rows};
use crate::resource::Fields;
use crate::storage::{Batch, Change, Entry, Error, Revision, Store};
use crate::store::{Draft, Followed, Memory, Object, Scope};

/// Bytes of superseded objects to resume watches over, a resource: those of half a second in which thousands of pods get their
/// nodes, so that a watcher who has to wait for a processor for so long does not list them all.
const HISTORY_BYTES: usize = 4 * 1024 * 1024;
/// Batches taken in at once, where so many have come: those who wait for theirs are woken once for all of them.
const AT_ONCE: usize = 128;
/// Between two tries to follow a store that does not answer.
const FOLLOW_AGAIN: Duration = Duration::from_millis(200);

/// Rows that are to be served from now on, and whom to tell when they are.
pub(super) struct Wish {
    pub rows: Arc<Rows>,
    pub done: oneshot::Sender<Result<(), Error>>,
}

/// Carries what the store has written into the cache.
pub(super) struct Follower {
    pub store: Arc<dyn Store>,
    pub cache: Memory,
    pub left: Left,
    pub catalog: Catalog,
    /// What is kept; the catalog is told once the cache has all of it.
    pub rows: Arc<Rows>,
    pub revision: Revision,
    pub wishes: mpsc::Receiver<Wish>,
    /// A wish whose objects are in the cache when it has reached that revision.
    pub waiting: Option<(Revision, Wish)>,
}

/// Everything there is, and the revision from which to follow.
pub(super) async fn fill(store: &dyn Store, rows: &Rows) -> Result<(Memory, Revision), Error> {
    let mut pages = Pages::of(store, key::PREFIX).await?;
    let cache = Memory::with_history(pages.revision, HISTORY_BYTES);
    while let Some(entries) = pages.next().await? {
        for entry in &entries {
            if let Some((stored, object)) = read(rows, entry) {
                cache.load(stored, object);
            }
        }
    }
    cache.follow(pages.revision, []);
    Ok((cache, pages.revision))
}

impl Follower {
    /// Follows for as long as there is a registry.
    pub async fn run(mut self) {
        while !self.wishes.is_closed() {
            let ended = match self.follow().await {
                Err(Error::Compacted { .. }) => {
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
    pub(super) async fn catch_up(&mut self) -> Result<(), Error> {
        let store = self.store.clone();
        let mut pages = Pages::of(store.as_ref(), key::PREFIX).await?;
        let mut here = BTreeSet::new();
        let mut written = Vec::new();
        while let Some(entries) = pages.next().await? {
            for entry in entries {
                here.insert(entry.key.clone());
                // Pages are pictures of different moments: what a later one shows beyond the first comes again as an event.
                if entry.modified > self.revision && entry.modified <= pages.revision {
                    written.push(entry);
                }
            }
        }
        written.sort_by_key(|entry| entry.modified);
        let mut changes: Vec<Followed> = written
            .iter()
            .filter_map(|entry| read(&self.rows, entry))
            .map(|(stored, object)| Followed::Put { resource: stored.to_owned(), object })
            .collect();
        for (stored, _) in self.rows.stored() {
            for object in self.cache.list(stored, &Scope::All).objects {
                let (namespace, name) = (object.namespace(), object.name());
                if !here.contains(key::of(stored, namespace, name).as_str()) {
                    changes.push(gone(key::Place { stored, namespace, name }));
                }
            }
        }
        self.moved_to(pages.revision, changes);
        Ok(())
    }

    /// Follows until the store ends it, or nobody wants it any more.
    pub(super) async fn follow(&mut self) -> Result<(), Error> {
        let mut batches = self.store.watch(self.revision).await?.ready_chunks(AT_ONCE);
        loop {
            tokio::select! {
                batches = batches.next() => match batches {
                    Some(batches) => self.apply(batches)?,
                    None => return Ok(()),
                },
                wish = self.wishes.recv() => match wish {
                    Some(wish) => self.change(wish).await,
                    None => return Ok(()),
                },
            }
        }
    }

    /// Takes in what there is, up to what went wrong.
    fn apply(&mut self, batches: Vec<Result<Arc<Batch>, Error>>) -> Result<(), Error> {
        let mut steps = Vec::with_capacity(batches.len());
        let mut ended = Ok(());
        for batch in batches {
            match batch {
                // Read before the cache is held.
                Ok(batch) => steps.push((batch.revision, self.changes(&batch))),
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        self.moved_through(steps);
        ended
    }

    fn changes(&self, batch: &Batch) -> Vec<Followed> {
        let changes = batch.events.iter().filter_map(|event| {
            let place = key::parse(&event.key)?;
            let fields = self.rows.fields(place.stored)?;
            match &event.change {
                Change::Put { value, .. } => {
                    let object = self.left.find(&event.key, value, fields, batch.revision);
                    let object = object.or_else(|| decode(&event.key, value, fields, batch.revision))?;
                    Some(Followed::Put { resource: place.stored.to_owned(), object })
                }
                Change::Delete { .. } => Some(gone(place)),
            }
        });
        changes.collect()
    }

    fn moved_to(&mut self, revision: Revision, changes: Vec<Followed>) {
        self.moved_through(vec![(revision, changes)]);
    }

    fn moved_through(&mut self, steps: Vec<(Revision, Vec<Followed>)>) {
        self.revision = steps.last().map_or(self.revision, |(revision, _)| *revision);
        self.cache.follow_through(steps);
        self.show();
    }

    /// Takes in what comes with these rows.
    async fn change(&mut self, wish: Wish) {
        match self.take_in(&wish.rows).await {
            Ok(complete_at) => {
                self.rows = wish.rows.clone();
                self.waiting = Some((complete_at, wish));
                self.show();
            }
            // Who asked is told; that it does not wait any more is no fault.
            Err(error) => drop(wish.done.send(Err(error))),
        }
    }

    /// Loads what the store holds of resources that are new; the revision at which the cache has all of it.
    async fn take_in(&self, rows: &Rows) -> Result<Revision, Error> {
        let mut complete_at = self.revision;
        for (stored, fields) in rows.stored() {
            if self.rows.fields(stored) == Some(fields) {
                continue;
            }
            let prefix = key::prefix(stored);
            let mut pages = Pages::of(self.store.as_ref(), &prefix).await?;
            let mut objects = Vec::new();
            while let Some(entries) = pages.next().await? {
                // What was written since then comes as an event.
                let old = entries.iter().filter(|entry| entry.modified <= self.revision);
                objects
                    .extend(old.filter_map(|entry| decode(&entry.key, &entry.value, fields, entry.modified)));
            }
            self.cache.adopt(stored, objects, pages.revision);
            complete_at = complete_at.max(pages.revision);
        }
        Ok(complete_at)
    }

    /// Tells the catalog of rows whose objects are all here, and forgets the objects of rows that are gone.
    fn show(&mut self) {
        let revision = self.revision;
        let Some((_, wish)) = self.waiting.take_if(|(complete_at, _)| *complete_at <= revision) else {
            return;
        };
        let before = self.catalog.rows();
        self.catalog.publish(wish.rows.clone());
        for (stored, _) in before.stored().filter(|(stored, _)| !wish.rows.holds(stored)) {
            self.cache.forget(stored);
        }
        // Who asked may not wait any more.
        drop(wish.done.send(Ok(())));
    }
}

/// That what stood in that place is gone.
fn gone(place: key::Place<'_>) -> Followed {
    let key::Place { stored, namespace, name } = place;
    Followed::Delete { resource: stored.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

/// The resource and the object of an entry.
fn read<'a>(rows: &Rows, entry: &'a Entry) -> Option<(&'a str, Object)> {
    let place = key::parse(&entry.key)?;
    let fields = rows.fields(place.stored)?;
    Some((place.stored, decode(&entry.key, &entry.value, fields, entry.modified)?))
}

/// The object that bytes are; none when they are no object, which is told.
pub(super) fn decode(key: &str, value: &Bytes, fields: &Fields, revision: Revision) -> Option<Object> {
    match serde_json::from_slice::<Map<String, Value>>(value) {
        Ok(object) => Some(Draft::new(&object, fields).at(revision)),
        Err(error) => {
            tracing::error!(key, %error, "the store holds something that is no object; it is not shown");
            None
        }
    }
}
