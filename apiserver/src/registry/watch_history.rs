//! Loads the watch history from before the server started. It comes from the log of the storage, when the first
//! watch needs it.
//!
//! The log contains each write, but its previous value only if the log also contains that write. If a previous
//! value is unknown, watches cannot start before the write, and get "too old".

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::time::timeout;

use super::{cache_updater, key};
use crate::catalog::Rows;
use crate::resource::Fields;
use crate::storage::{self, Batch, Event, Revision, Store};
use crate::watch_cache::{Before, Change, ChangeKind, HISTORY_CHANGES, Object, WatchCache};

/// Maximum number of revisions that are read; the embedded store keeps as many.
const MAX_REVISIONS: u64 = 10_000;
/// Maximum size of the values that are kept to find previous values, in bytes. Beyond it, they are dropped.
const MAX_VALUE_BYTES: usize = 64 * 1024 * 1024;
/// Time limit for the load. After it, the waiting clients list instead.
const LOAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of attempts if the log is compacted while it is read. The second attempt starts at the oldest
/// revision. Each later one skips a larger part of the log, up to half.
const MAX_ATTEMPTS: u32 = 5;

/// Loads the history of all cached resources that lack it.
pub(super) async fn load(
    store: &dyn Store,
    cache: &WatchCache,
    rows: Arc<Rows>,
) -> Result<(), storage::Error> {
    let wanted: BTreeMap<String, Revision> = cache.without_history().into_iter().collect();
    let upto = wanted.values().copied().max().unwrap_or_default();
    let read = timeout(LOAD_TIMEOUT, read(store, wanted, upto)).await;
    let past = read.unwrap_or(Err(storage::Error::Unreachable { store: "the log".to_owned() }))?;
    let cache = cache.clone();
    // Decoding takes long, so it runs on a blocking thread. On shutdown the result is not needed.
    let _ = tokio::task::spawn_blocking(move || past.load_into(&cache, &rows)).await;
    Ok(())
}

async fn read(
    store: &dyn Store,
    wanted: BTreeMap<String, Revision>,
    upto: Revision,
) -> Result<PastWrites, storage::Error> {
    let mut from = upto.saturating_sub(MAX_REVISIONS);
    let mut tries = 0;
    loop {
        tries += 1;
        match read_from(store, PastWrites::of(wanted.clone(), from), upto).await {
            Err(storage::Error::Compacted { oldest, .. }) if tries < MAX_ATTEMPTS => {
                from = restart_at(oldest, upto, tries).max(from).min(upto);
            }
            read => return read,
        }
    }
}

/// The revision at which the next attempt starts. A full log drops its oldest entry with every write, so an attempt
/// that starts there would fail again.
fn restart_at(oldest: Revision, upto: Revision, tries: u32) -> Revision {
    let skipped = if tries > 1 { upto.saturating_sub(oldest) >> (MAX_ATTEMPTS - tries) } else { 0 };
    oldest + skipped
}

async fn read_from(
    store: &dyn Store,
    mut past: PastWrites,
    upto: Revision,
) -> Result<PastWrites, storage::Error> {
    if past.read < upto {
        let mut batches = store.watch(past.read).await?;
        while past.read < upto {
            past.note(batches.next().await.ok_or(storage::Error::Closed)??.as_ref());
        }
    }
    Ok(past)
}

/// The writes that were read from the log, by resource.
#[derive(Debug)]
pub(super) struct PastWrites {
    tables: BTreeMap<String, ResourceWrites>,
    /// Last value of each key.
    values: HashMap<Arc<str>, Value>,
    bytes: usize,
    /// Revision up to which the log has been read.
    read: Revision,
}

/// The writes of one resource.
#[derive(Debug)]
struct ResourceWrites {
    /// The cache already has the history after this revision.
    starts_at: Revision,
    /// The history is complete after this revision.
    since: Revision,
    writes: VecDeque<Written>,
}

/// One write, not decoded.
#[derive(Debug)]
struct Written {
    key: Arc<str>,
    revision: Revision,
    /// The new value, or `None` for a deletion.
    value: Option<Bytes>,
    before: Previous,
}

/// The revision and the bytes of a value.
type Value = (Revision, Bytes);

/// What is known of the value of a key before a write.
#[derive(Debug)]
enum Previous {
    Nothing,
    Value(Value),
    Forgotten,
}

impl PastWrites {
    /// Creates an empty history for these resources, each up to a revision.
    pub(super) fn of(wanted: BTreeMap<String, Revision>, from: Revision) -> Self {
        let table =
            |starts_at| ResourceWrites { starts_at, since: from.min(starts_at), writes: VecDeque::new() };
        let tables = wanted.into_iter().map(|(stored, starts_at)| (stored, table(starts_at))).collect();
        Self { tables, values: HashMap::new(), bytes: 0, read: from }
    }

    /// Adds a batch of the log, in order.
    pub(super) fn note(&mut self, batch: &Batch) {
        for event in &batch.events {
            let Some(place) = key::parse(&event.key) else { continue };
            let Some(table) =
                self.tables.get_mut(place.stored).filter(|table| batch.revision <= table.starts_at)
            else {
                continue;
            };
            let known = self.values.remove(&event.key);
            self.bytes -= known.as_ref().map_or(0, |(_, value)| value.len());
            table.note(event, batch.revision, known);
            if let storage::Change::Put { value, .. } = &event.change {
                self.bytes += value.len();
                self.values.insert(event.key.clone(), (batch.revision, value.clone()));
            }
            if self.bytes > MAX_VALUE_BYTES {
                self.values.clear();
                self.bytes = 0;
            }
        }
        self.read = batch.revision;
    }

    /// Decodes the writes and adds them to the cache.
    pub(super) fn load_into(self, cache: &WatchCache, rows: &Rows) {
        for (stored, table) in self.tables {
            let Some(fields) = rows.fields(&stored) else { continue };
            let (starts_at, mut since, mut changes) = (table.starts_at, table.since, Vec::new());
            let mut objects = HashMap::new();
            for written in table.writes {
                match written.change(&stored, fields, cache, &mut objects) {
                    Some(change) => changes.push(change),
                    // Without the previous object, watches cannot start before this write.
                    None => {
                        changes.clear();
                        since = written.revision;
                    }
                }
            }
            tracing::debug!(
                resource = stored,
                changes = changes.len(),
                since,
                "loaded watch history from the storage log"
            );
            cache.load_history(&stored, starts_at, changes, since);
        }
    }
}

impl ResourceWrites {
    fn note(&mut self, event: &Event, revision: Revision, known: Option<Value>) {
        let known = known.filter(|(written, _)| Some(*written) == event.previous);
        let (value, before) = match (&event.change, event.previous) {
            (storage::Change::Put { value, .. }, None) => (Some(value.clone()), Previous::Nothing),
            (storage::Change::Put { value, .. }, Some(_)) => {
                (Some(value.clone()), known.map_or(Previous::Forgotten, Previous::Value))
            }
            (storage::Change::Delete { last }, Some(_)) if last.is_empty() => {
                (None, known.map_or(Previous::Forgotten, Previous::Value))
            }
            (storage::Change::Delete { last }, Some(previous)) => {
                (None, Previous::Value((previous, last.clone())))
            }
            // A deletion needs a previous value.
            (storage::Change::Delete { .. }, None) => return,
        };
        self.writes.push_back(Written { key: event.key.clone(), revision, value, before });
        // The cache has the same limit.
        if self.writes.len() > HISTORY_CHANGES {
            self.since = self.writes.pop_front().map_or(self.since, |first| first.revision);
        }
    }
}

impl Written {
    /// Converts the write to a watch event. `objects` contains the last decoded object of each key.
    fn change(
        &self,
        stored: &str,
        fields: &Fields,
        cache: &WatchCache,
        objects: &mut HashMap<Arc<str>, Object>,
    ) -> Option<Change> {
        let place = key::parse(&self.key)?;
        let read = |value: &Bytes, revision| cache_updater::decode(&self.key, value, fields, revision);
        let last = objects.remove(&self.key);
        let before = match &self.before {
            Previous::Nothing => Before::Nothing,
            Previous::Forgotten => Before::Forgotten,
            Previous::Value((written, value)) => {
                let last = last.filter(|last| last.revision() == *written);
                Before::Object(last.or_else(|| read(value, *written))?)
            }
        };
        let revision = self.revision;
        let Some(value) = &self.value else {
            let object = before.object()?.at(revision);
            return Some(Change::new(ChangeKind::Deleted, object, before));
        };
        // The cache already has the current object decoded.
        let now = cache.get(stored, place.namespace, place.name).filter(|now| now.revision() == revision);
        let object = now.or_else(|| read(value, revision))?;
        objects.insert(self.key.clone(), object.clone());
        Some(Change::new(ChangeKind::Put, object, before))
    }
}

#[cfg(test)]
mod tests;
