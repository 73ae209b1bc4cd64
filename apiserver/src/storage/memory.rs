//! In-memory store for tests and trials.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;

use super::decide::{Decision, decide};
use super::history::History;
use super::transaction::{FIRST_REVISION, PAGE_BYTES, future_revision};
use super::watch::{Batches, Log, batches};
use super::{
    Batch, Change, Entry, Error, Found, Limits, Outcome, Page, Revision, Store, Transaction, embedded,
};

/// An in-memory store.
#[derive(Debug)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    /// The current revision. Watchers do not share it, so that they end when the store is dropped.
    newest: watch::Sender<Revision>,
}

#[derive(Debug)]
struct State {
    revision: Revision,
    entries: BTreeMap<Arc<str>, Entry>,
    history: History,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Memory {
    /// Creates an empty store with these limits of its history.
    pub fn new(limits: Limits) -> Self {
        let revision = FIRST_REVISION;
        let state = State { revision, entries: BTreeMap::new(), history: History::new(revision, limits) };
        Self { state: Arc::new(Mutex::new(state)), newest: watch::Sender::new(revision) }
    }
}

#[async_trait]
impl Store for Memory {
    async fn get(&self, key: &str) -> Result<Found, Error> {
        let state = lock(&self.state);
        Ok(Found { entry: state.entries.get(key).cloned(), revision: state.revision })
    }

    async fn range(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page, Error> {
        let state = lock(&self.state);
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut page = Page { entries: Vec::new(), revision: state.revision, more: false };
        let mut bytes = 0;
        let found = state.entries.range::<str, _>((from, Bound::Unbounded));
        for (_, entry) in found.take_while(|(key, _)| key.starts_with(prefix)) {
            if page.entries.len() >= limit || bytes >= PAGE_BYTES {
                page.more = true;
                break;
            }
            bytes += entry.value.len();
            page.entries.push(entry.clone());
        }
        Ok(page)
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, Error> {
        transaction.check()?;
        let mut state = lock(&self.state);
        let look = |key: &str| Ok(state.entries.get(key).cloned());
        match decide(&transaction, state.revision + 1, look)? {
            Decision::Conflict { key, current } => return Ok(Outcome::Conflict { key, current }),
            Decision::Nothing => {}
            Decision::Change(batch) => {
                state.apply(batch);
                self.newest.send_replace(state.revision);
            }
        }
        Ok(Outcome::Committed { revision: state.revision })
    }

    async fn commit_deferred(&self, transaction: Transaction) -> Result<Outcome, Error> {
        self.commit(transaction).await
    }

    async fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn watch(&self, from: Revision) -> Result<Batches, Error> {
        lock(&self.state).history.after(from)?;
        Ok(batches(self.state.clone(), self.newest.subscribe(), from))
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let mut state = lock(&self.state);
        if revision > state.revision {
            return Err(future_revision(revision, state.revision));
        }
        state.history.compact(revision);
        Ok(())
    }

    async fn revision(&self) -> Result<Revision, Error> {
        Ok(lock(&self.state).revision)
    }

    async fn check_health(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn backup(&self, path: &Path) -> Result<(), Error> {
        let (revision, entries) = {
            let state = lock(&self.state);
            (state.revision, state.entries.values().cloned().collect::<Vec<_>>())
        };
        embedded::write_copy(path.to_owned(), revision, entries.into_iter().map(Ok)).await
    }
}

impl State {
    fn apply(&mut self, batch: Batch) {
        for event in &batch.events {
            match &event.change {
                Change::Put { .. } => {
                    self.entries.extend(event.entry(batch.revision).map(|entry| (event.key.clone(), entry)));
                }
                Change::Delete { .. } => {
                    self.entries.remove(&event.key);
                }
            }
        }
        self.revision = batch.revision;
        self.history.push(Arc::new(batch));
    }
}

#[async_trait]
impl Log for Mutex<State> {
    async fn after(&self, seen: Revision) -> Result<Vec<Arc<Batch>>, Error> {
        lock(self).history.after(seen)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
