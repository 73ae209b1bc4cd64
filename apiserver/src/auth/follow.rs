//! An index over objects of a store that is never older than they are.
//!
//! Nothing runs in between: before it is asked it takes in what has changed, which is nothing nearly always. So whoever has
//! written an object finds it taken into account with the next request. Where much changes between two questions, a task
//! may [keep it up](Followed::keep_up), so that no question has much to take in.

use std::fmt::Debug;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use futures_util::future::join_all;

use crate::store::{ChangeKind, Memory, Object, Scope, TooOld, Watcher};

/// Between two tries to watch a store that cannot be watched.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What is made of all objects of some kinds.
pub(super) trait Index: Debug + Default + Send + Sync {
    /// Which kind an object is of.
    type Kind: Copy + Debug + Send + Sync + 'static;
    /// All of them.
    const KINDS: &'static [Self::Kind];

    /// The name of a kind in the store.
    fn resource(kind: Self::Kind) -> String;

    /// Takes in an object, in place of what was there under its name.
    fn take_in(&mut self, kind: Self::Kind, object: &Object);

    /// Forgets an object.
    fn forget(&mut self, kind: Self::Kind, namespace: &str, name: &str);
}

/// An index and the store that it follows.
#[derive(Debug)]
pub(super) struct Followed<I: Index> {
    store: Memory,
    state: RwLock<State<I>>,
}

#[derive(Debug)]
struct State<I: Index> {
    index: I,
    /// One a kind; none where all is to be read anew.
    watchers: Vec<(I::Kind, Watcher)>,
}

impl<I: Index> Followed<I> {
    /// One that follows that store.
    pub fn new(store: Memory) -> Self {
        let mut state = State { index: I::default(), watchers: Vec::new() };
        state.catch_up(&store);
        Self { store, state: RwLock::new(state) }
    }

    /// Asks the index as it is now.
    pub fn with_index<T>(&self, ask: impl FnOnce(&I) -> T) -> T {
        ask(&self.fresh().index)
    }

    /// Takes in what changes when it changes, for as long as it is polled.
    pub async fn keep_up(&self) {
        join_all(I::KINDS.iter().map(|kind| self.keep_up_with(I::resource(*kind)))).await;
    }

    async fn keep_up_with(&self, resource: String) {
        loop {
            match self.store.watch(&resource, Scope::All, self.store.revision()) {
                Ok(mut watcher) => {
                    while watcher.next().await.is_ok() {
                        drop(self.fresh());
                    }
                }
                Err(_) => tokio::time::sleep(TRY_AGAIN).await,
            }
        }
    }

    fn fresh(&self) -> RwLockReadGuard<'_, State<I>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if !state.is_behind() {
            return state;
        }
        drop(state);
        self.state.write().unwrap_or_else(PoisonError::into_inner).catch_up(&self.store);
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I: Index> State<I> {
    fn is_behind(&self) -> bool {
        self.watchers.is_empty() || self.watchers.iter().any(|(_, watcher)| watcher.has_news())
    }

    fn catch_up(&mut self, store: &Memory) {
        if self.watchers.is_empty() || self.take_in().is_err() {
            self.read_all(store);
        }
    }

    fn take_in(&mut self) -> Result<(), TooOld> {
        for (kind, watcher) in &mut self.watchers {
            loop {
                let changes = watcher.ready()?;
                if changes.is_empty() {
                    break;
                }
                for change in changes {
                    let object = &change.object;
                    match change.kind {
                        ChangeKind::Put => self.index.take_in(*kind, object),
                        ChangeKind::Deleted => self.index.forget(*kind, object.namespace(), object.name()),
                    }
                }
            }
        }
        Ok(())
    }

    /// Lists everything; where the store cannot be watched from there on, it is listed again for the next question.
    fn read_all(&mut self, store: &Memory) {
        self.index = I::default();
        let mut watchers = Vec::new();
        for kind in I::KINDS {
            let resource = I::resource(*kind);
            let listing = store.list(&resource, &Scope::All);
            let watcher = store.watch(&resource, Scope::All, listing.revision);
            watchers.extend(watcher.map(|watcher| (*kind, watcher)));
            for object in &listing.objects {
                self.index.take_in(*kind, object);
            }
        }
        self.watchers = if watchers.len() == I::KINDS.len() { watchers } else { Vec::new() };
    }
}
