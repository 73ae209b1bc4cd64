//! Status manager: converts reports about pods, events and the node into API objects in the local store.
//!
//! All objects that the local API serves are written by [`StatusManager`].

mod event_log;
pub mod events;
mod node;
mod pods;
pub mod resources;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use apiserver::watch_cache::{Draft, Scope, WatchCache};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};

use crate::report::{self, Mail, NodeReport, Note, Outbox, Report, Severity};
pub use event_log::EventLog;
use events::EventCorrelator;

/// Size of the watch history in bytes. A client that misses a few dozen changes need not list again.
const HISTORY_BYTES: usize = 256 * 1024;

/// Writes the API objects of this node.
#[derive(Debug)]
pub struct StatusManager {
    store: WatchCache,
    state: Mutex<State>,
    new_events: Notify,
    copied: OnceLock<Arc<report::Events>>,
    shown_node: watch::Sender<Arc<Map<String, Value>>>,
}

/// Inputs of the Node object and of the events, kept until the next change.
#[derive(Debug)]
struct State {
    events: EventCorrelator,
    node_name: String,
    node: NodeReport,
    problems: Vec<String>,
    /// Message about another machine with this node's name in the cluster.
    name_conflict: Option<String>,
}

impl StatusManager {
    /// Creates a status manager without objects. `node` is the source of events.
    pub fn new(node: &str) -> Arc<Self> {
        // Revisions start at the current time, above those of earlier processes, so that their watchers list again.
        let now = Timestamp::now();
        let first = u64::try_from(now.as_millisecond()).unwrap_or_default();
        let state = State {
            events: EventCorrelator::new(node),
            node_name: node.to_owned(),
            node: NodeReport { created_at: Some(now), ..NodeReport::default() },
            problems: Vec::new(),
            name_conflict: None,
        };
        let store = WatchCache::with_history(first, HISTORY_BYTES);
        let shown_node = watch::channel(Arc::default()).0;
        let (new_events, copied) = (Notify::new(), OnceLock::new());
        let status_manager = Self { store, state: Mutex::new(state), new_events, copied, shown_node };
        status_manager.put_node(&status_manager.state());
        Arc::new(status_manager)
    }

    /// The store that the API serves.
    pub fn store(&self) -> &WatchCache {
        &self.store
    }

    /// The current Node object.
    pub fn node(&self) -> watch::Receiver<Arc<Map<String, Value>>> {
        self.shown_node.subscribe()
    }

    /// Processes reports from the outbox until the task is aborted.
    pub async fn drain(self: Arc<Self>, outbox: Arc<Outbox>) {
        loop {
            let next_expiry = self.state().events.next_expiry(Timestamp::now());
            let mail = match next_expiry {
                // Without reports, wake up to expire the oldest event.
                Some(after) => tokio::time::timeout(after, outbox.take()).await.unwrap_or_default(),
                None => outbox.take().await,
            };
            self.apply(mail, Timestamp::now());
        }
    }

    /// Applies a batch of reports.
    pub fn apply(&self, mail: Mail, now: Timestamp) {
        for (uid, report) in mail.reports {
            match report {
                Report::Status { pod, status, deletion } => {
                    let before = pods::find(&self.store, &uid, &pod.metadata);
                    let created = before.as_ref().and_then(pods::creation_timestamp);
                    let object = pods::object(&pod, &status, deletion, created, now);
                    if let Some(before) = before
                        && !pods::same_place(&before, &object)
                    {
                        self.store.delete(resources::PODS, before.namespace(), before.name());
                    }
                    self.put(resources::PODS, &object);
                }
                Report::Gone => {
                    if let Some(object) = pods::find_by_uid(&self.store, &uid) {
                        self.store.delete(resources::PODS, object.namespace(), object.name());
                    }
                }
            }
        }
        let mut state = self.state();
        if mail.node.is_some() || mail.problems.is_some() || mail.name_conflict.is_some() {
            if let Some(report) = mail.node {
                let created_at = report.created_at.or(state.node.created_at);
                state.node = NodeReport { created_at, ..*report };
            }
            state.problems = mail.problems.unwrap_or(std::mem::take(&mut state.problems));
            state.name_conflict = mail.name_conflict.unwrap_or(state.name_conflict.take());
            self.put_node(&state);
        }
        for uid in &mail.edited {
            state.events.edited(uid.as_str());
        }
        for note in mail.notes {
            if let Some(object) = state.events.record(&note) {
                log_warning(&note);
                self.put(resources::EVENTS, &object);
                self.new_events.notify_one();
                if let Some(events) = self.copied.get() {
                    events.put(object);
                }
            }
        }
        for (namespace, name) in state.events.expire(now) {
            self.store.delete(resources::EVENTS, &namespace, &name);
        }
        if mail.lost > 0 {
            tracing::warn!(events = mail.lost, "events were lost in a burst");
        }
    }

    /// All recorded events, newest last.
    pub fn events(&self) -> Vec<Map<String, Value>> {
        let listed = self.store.list(resources::EVENTS, &Scope::All).objects;
        let mut events: Vec<Map<String, Value>> = listed.iter().map(|object| object.decode()).collect();
        // All timestamps have the same format and length, so they sort as text.
        let text = |event: &Map<String, Value>| event.get("lastTimestamp").map(Value::to_string);
        events.sort_by_cached_key(text);
        events
    }

    /// Returns a queue that gets all future events, for the cluster.
    pub fn copied_events(&self) -> Arc<report::Events> {
        self.copied.get_or_init(Arc::default).clone()
    }

    /// Waits until events were recorded since the last call.
    pub async fn new_events(&self) {
        self.new_events.notified().await;
    }

    /// Restores events of an earlier kubelet process, newest last, except expired ones.
    pub fn restore_events(&self, events: &[Map<String, Value>], now: Timestamp) {
        let mut state = self.state();
        for event in events.iter().filter_map(|event| state.events.restore(event, now)) {
            self.put(resources::EVENTS, &event);
        }
    }

    /// Replaces all objects of a resource. It is used for ConfigMaps and Secrets of local sources.
    pub fn set<'a, T: Serialize + 'a>(
        &self,
        resource: &'static str,
        objects: impl Iterator<Item = &'a T>,
        now: Timestamp,
    ) {
        let mut kept = BTreeSet::new();
        for object in objects {
            if let Ok(Value::Object(mut object)) = serde_json::to_value(object) {
                self.date(resource, &mut object, now);
                let draft = Draft::new(&object, &resources::fields(resource));
                kept.insert((draft.namespace().to_owned(), draft.name().to_owned()));
                self.store.put(resource, &draft);
            }
        }
        for object in self.store.list(resource, &Scope::All).objects {
            if !kept.contains(&(object.namespace().to_owned(), object.name().to_owned())) {
                self.store.delete(resource, object.namespace(), object.name());
            }
        }
    }

    /// Sets the creation timestamp of an object that has none. It is the time when the object first appeared.
    fn date(&self, resource: &str, object: &mut Map<String, Value>, now: Timestamp) {
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
        if metadata.contains_key("creationTimestamp") {
            return;
        }
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
        let before = self.store.get(resource, text("namespace"), text("name"));
        let created =
            before.as_ref().and_then(pods::creation_timestamp).unwrap_or_else(|| pods::rfc3339(now));
        metadata.insert("creationTimestamp".to_owned(), created.into());
    }

    fn put(&self, resource: &'static str, object: &Map<String, Value>) {
        self.store.put(resource, &Draft::new(object, &resources::fields(resource)));
    }

    fn put_node(&self, state: &State) {
        let problems: Vec<String> = state.problems.iter().chain(&state.name_conflict).cloned().collect();
        let object = node::object(&state.node_name, &state.node, &problems);
        self.put(resources::NODES, &object);
        self.shown_node.send_replace(Arc::new(object));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs recorded Warnings, so that the log explains why a pod fails.
fn log_warning(note: &Note) {
    if note.severity != Severity::Warning {
        return;
    }
    let Note { about, reason, message, .. } = note;
    let (kind, object, field) = (about.kind, about.full_name(), &about.field_path);
    if field.is_empty() {
        tracing::warn!(kind, object, %reason, "{message}");
    } else {
        tracing::warn!(kind, object, field, %reason, "{message}");
    }
}

#[cfg(test)]
mod tests;
