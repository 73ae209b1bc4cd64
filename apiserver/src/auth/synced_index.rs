//! An in-memory index of objects in the watch cache, which is up to date for every read.
//!
//! A read first applies pending changes, usually none. A client that has written an object therefore sees its
//! effect on the next request. [`run_sync`](SyncedIndex::run_sync) applies changes in the background, so that a
//! single read rarely has many to apply.

use std::fmt::Debug;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use futures_util::future::join_all;

use crate::watch_cache::{ChangeKind, Object, Scope, TooOld, WatchCache, Watcher};

/// Delay before a watch is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// An index of all objects of some kinds.
pub(super) trait Index: Debug + Default + Send + Sync {
    /// The kinds of objects that the index contains.
    type Kind: Copy + Debug + Send + Sync + 'static;
    /// Every value of [`Self::Kind`].
    const KINDS: &'static [Self::Kind];

    /// Storage name of a kind.
    fn resource(kind: Self::Kind) -> String;

    /// Adds or replaces an object.
    fn upsert(&mut self, kind: Self::Kind, object: &Object);

    /// Removes an object.
    fn remove(&mut self, kind: Self::Kind, namespace: &str, name: &str);
}

/// An index and the watch cache from which it is built.
#[derive(Debug)]
pub(super) struct SyncedIndex<I: Index> {
    store: WatchCache,
    state: RwLock<State<I>>,
}

#[derive(Debug)]
struct State<I: Index> {
    index: I,
    /// One watcher per kind; empty if the index must be rebuilt.
    watchers: Vec<(I::Kind, Watcher)>,
}

impl<I: Index> SyncedIndex<I> {
    /// Creates an index of objects in the watch cache.
    pub fn new(store: WatchCache) -> Self {
        let mut state = State { index: I::default(), watchers: Vec::new() };
        state.sync(&store);
        Self { store, state: RwLock::new(state) }
    }

    /// Brings the index up to date, and runs `query` on it.
    pub fn with_index<T>(&self, query: impl FnOnce(&I) -> T) -> T {
        query(&self.synced().index)
    }

    /// Applies changes as they happen, until the future is dropped.
    pub async fn run_sync(&self) {
        join_all(I::KINDS.iter().map(|kind| self.sync_resource(I::resource(*kind)))).await;
    }

    async fn sync_resource(&self, resource: String) {
        loop {
            match self.store.watch(&resource, Scope::All, self.store.revision()) {
                Ok(mut watcher) => {
                    while watcher.next().await.is_ok() {
                        drop(self.synced());
                    }
                }
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        }
    }

    fn synced(&self) -> RwLockReadGuard<'_, State<I>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if !state.is_behind() {
            return state;
        }
        drop(state);
        self.state.write().unwrap_or_else(PoisonError::into_inner).sync(&self.store);
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I: Index> State<I> {
    fn is_behind(&self) -> bool {
        self.watchers.is_empty() || self.watchers.iter().any(|(_, watcher)| watcher.has_changes())
    }

    fn sync(&mut self, store: &WatchCache) {
        if self.watchers.is_empty() || self.upsert().is_err() {
            self.relist(store);
        }
    }

    fn upsert(&mut self) -> Result<(), TooOld> {
        for (kind, watcher) in &mut self.watchers {
            loop {
                let changes = watcher.ready()?;
                if changes.is_empty() {
                    break;
                }
                for change in changes {
                    let object = &change.object;
                    match change.kind {
                        ChangeKind::Put => self.index.upsert(*kind, object),
                        ChangeKind::Deleted => self.index.remove(*kind, object.namespace(), object.name()),
                    }
                }
            }
        }
        Ok(())
    }

    /// Rebuilds the index from lists. If a watch cannot start, the next read rebuilds it again.
    fn relist(&mut self, store: &WatchCache) {
        self.index = I::default();
        let mut watchers = Vec::new();
        for kind in I::KINDS {
            let resource = I::resource(*kind);
            let listing = store.list(&resource, &Scope::All);
            let watcher = store.watch(&resource, Scope::All, listing.revision);
            watchers.extend(watcher.map(|watcher| (*kind, watcher)));
            for object in &listing.objects {
                self.index.upsert(*kind, object);
            }
        }
        self.watchers = if watchers.len() == I::KINDS.len() { watchers } else { Vec::new() };
    }
}
