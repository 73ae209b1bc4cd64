//! What happened before this server began, read from the log of the store when the first watch asks to go on from there.
//!
//! The log tells what was written, and what stood there before only where it has that too. What it does not tell is
//! forgotten: who would need it is told that the revision is too old, all others go on.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::time::timeout;

use super::{follow, key};
use crate::catalog::Rows;
use crate::resource::Fields;
use crate::storage::{self, Batch, Event, Revision, Store};
use crate::store::{Before, Change, ChangeKind, HISTORY_CHANGES, Memory, Object};

/// Revisions that are read, however far back the log goes: what a store keeps by itself.
const MOST_REVISIONS: u64 = 10_000;
/// Bytes of values that are held meanwhile to tell what stood before; beyond, that is forgotten.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// How long it may take; those who wait are told to list instead.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is begun anew because the log was cut off meanwhile.
const TRIES: usize = 3;

/// Reads the past of all resources in the cache that have none.
pub(super) async fn take_in(
    store: &dyn Store,
    cache: &Memory,
    rows: Arc<Rows>,
) -> Result<(), storage::Error> {
    let wanted: BTreeMap<String, Revision> = cache.without_past().into_iter().collect();
    let upto = wanted.values().copied().max().unwrap_or_default();
    let read = timeout(PATIENCE, read(store, wanted, upto)).await;
    let past = read.unwrap_or(Err(storage::Error::Unreachable { store: "the log".to_owned() }))?;
    let cache = cache.clone();
    // It takes a while, in which others are to be served. Who stops it does not want to know.
    let _ = tokio::task::spawn_blocking(move || past.hand_over(&cache, &rows)).await;
    Ok(())
}

async fn read(
    store: &dyn Store,
    wanted: BTreeMap<String, Revision>,
    upto: Revision,
) -> Result<Past, storage::Error> {
    let mut from = upto.saturating_sub(MOST_REVISIONS);
    let mut tries = 0;
    loop {
        tries += 1;
        match read_from(store, Past::of(wanted.clone(), from), upto).await {
            Err(storage::Error::Compacted { oldest, .. }) if tries < TRIES => {
                from = oldest.max(from).min(upto)
            }
            read => return read,
        }
    }
}

async fn read_from(store: &dyn Store, mut past: Past, upto: Revision) -> Result<Past, storage::Error> {
    if past.read < upto {
        let mut batches = store.watch(past.read).await?;
        while past.read < upto {
            past.note(batches.next().await.ok_or(storage::Error::Closed)??.as_ref());
        }
    }
    Ok(past)
}

/// What the log tells of some resources.
#[derive(Debug)]
pub(super) struct Past {
    tables: BTreeMap<String, Told>,
    /// The last value of each key.
    values: HashMap<Arc<str>, Value>,
    bytes: usize,
    /// Everything up to here has been read.
    read: Revision,
}

/// What the log tells of one resource.
#[derive(Debug)]
struct Told {
    /// What came later is known already.
    begun: Revision,
    /// Everything after this revision is here.
    since: Revision,
    writes: VecDeque<Written>,
}

/// One write, as bytes.
#[derive(Debug)]
struct Written {
    key: Arc<str>,
    revision: Revision,
    /// None when it was a deletion.
    value: Option<Bytes>,
    before: Stood,
}

/// Bytes, and the revision that wrote them.
type Value = (Revision, Bytes);

/// What stood under a key before it was written.
#[derive(Debug)]
enum Stood {
    Nothing,
    Value(Value),
    Forgotten,
}

impl Past {
    /// Nothing yet of these resources, each up to a revision.
    pub(super) fn of(wanted: BTreeMap<String, Revision>, from: Revision) -> Self {
        let told = |begun| Told { begun, since: from.min(begun), writes: VecDeque::new() };
        let tables = wanted.into_iter().map(|(stored, begun)| (stored, told(begun))).collect();
        Self { tables, values: HashMap::new(), bytes: 0, read: from }
    }

    /// Notes what a batch of the log tells; batches come in order.
    pub(super) fn note(&mut self, batch: &Batch) {
        for event in &batch.events {
            let Some(place) = key::parse(&event.key) else { continue };
            let Some(told) = self.tables.get_mut(place.stored).filter(|told| batch.revision <= told.begun)
            else {
                continue;
            };
            let known = self.values.remove(&event.key);
            self.bytes -= known.as_ref().map_or(0, |(_, value)| value.len());
            told.note(event, batch.revision, known);
            if let storage::Change::Put { value, .. } = &event.change {
                self.bytes += value.len();
                self.values.insert(event.key.clone(), (batch.revision, value.clone()));
            }
            if self.bytes > MOST_BYTES {
                self.values.clear();
                self.bytes = 0;
            }
        }
        self.read = batch.revision;
    }

    /// Gives the cache what was told, as objects.
    pub(super) fn hand_over(self, cache: &Memory, rows: &Rows) {
        for (stored, told) in self.tables {
            let Some(fields) = rows.fields(&stored) else { continue };
            let (begun, mut since, mut changes) = (told.begun, told.since, Vec::new());
            let mut objects = HashMap::new();
            for written in told.writes {
                match written.change(&stored, fields, cache, &mut objects) {
                    Some(change) => changes.push(change),
                    // Nobody can be told of it, so nobody goes on from before it.
                    None => {
                        changes.clear();
                        since = written.revision;
                    }
                }
            }
            tracing::debug!(resource = stored, changes = changes.len(), since, "read the past from the log");
            cache.take_in_past(&stored, begun, changes, since);
        }
    }
}

impl Told {
    fn note(&mut self, event: &Event, revision: Revision, known: Option<Value>) {
        let known = known.filter(|(written, _)| Some(*written) == event.previous);
        let (value, before) = match (&event.change, event.previous) {
            (storage::Change::Put { value, .. }, None) => (Some(value.clone()), Stood::Nothing),
            (storage::Change::Put { value, .. }, Some(_)) => {
                (Some(value.clone()), known.map_or(Stood::Forgotten, Stood::Value))
            }
            (storage::Change::Delete { last }, Some(_)) if last.is_empty() => {
                (None, known.map_or(Stood::Forgotten, Stood::Value))
            }
            (storage::Change::Delete { last }, Some(previous)) => {
                (None, Stood::Value((previous, last.clone())))
            }
            // What was not there cannot go.
            (storage::Change::Delete { .. }, None) => return,
        };
        self.writes.push_back(Written { key: event.key.clone(), revision, value, before });
        // More than the cache remembers is not worth reading.
        if self.writes.len() > HISTORY_CHANGES {
            self.since = self.writes.pop_front().map_or(self.since, |first| first.revision);
        }
    }
}

impl Written {
    /// The write as watchers are told of it; `objects` are those that were read before it, by their keys.
    fn change(
        &self,
        stored: &str,
        fields: &Fields,
        cache: &Memory,
        objects: &mut HashMap<Arc<str>, Object>,
    ) -> Option<Change> {
        let place = key::parse(&self.key)?;
        let read = |value: &Bytes, revision| follow::decode(&self.key, value, fields, revision);
        let last = objects.remove(&self.key);
        let before = match &self.before {
            Stood::Nothing => Before::Nothing,
            Stood::Forgotten => Before::Forgotten,
            Stood::Value((written, value)) => {
                let last = last.filter(|last| last.revision() == *written);
                Before::Object(last.or_else(|| read(value, *written))?)
            }
        };
        let revision = self.revision;
        let Some(value) = &self.value else {
            let object = before.object()?.at(revision);
            return Some(Change { revision, kind: ChangeKind::Deleted, object, before });
        };
        // What stands there still has been read already.
        let now = cache.get(stored, place.namespace, place.name).filter(|now| now.revision() == revision);
        let object = now.or_else(|| read(value, revision))?;
        objects.insert(self.key.clone(), object.clone());
        Some(Change { revision, kind: ChangeKind::Put, object, before })
    }
}

#[cfg(test)]
mod tests;
