//! What the node shows of itself: the latest of each pod, events, the node, as API objects on a [`Board`].
//!
//! Everything that is shown passes here on its way to the store; the API only reads it.

pub mod events;
mod journal;
mod node;
mod pods;
pub mod resources;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use apiserver::store::{Draft, Memory, Scope};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};

use crate::report::{self, Mail, NodeReport, Outbox, Report};
use events::Events;
pub use journal::Journal;

/// Superseded objects kept for watches to resume over: a client that was away for a few dozen changes need not list again.
const HISTORY_BYTES: usize = 256 * 1024;

/// The API objects of this node.
#[derive(Debug)]
pub struct Board {
    store: Memory,
    state: Mutex<State>,
    new_events: Notify,
    copied: OnceLock<Arc<report::Events>>,
    shown_node: watch::Sender<Arc<Map<String, Value>>>,
}

/// What must be remembered to tell it again.
#[derive(Debug)]
struct State {
    events: Events,
    node_name: String,
    node: NodeReport,
    problems: Vec<String>,
}

impl Board {
    /// A board on which nothing stands yet; `node` is the name events come from.
    pub fn new(node: &str) -> Arc<Self> {
        // The time as first revision: it is above all revisions of the process before, so their watchers list again.
        let now = Timestamp::now();
        let first = u64::try_from(now.as_millisecond()).unwrap_or_default();
        let state = State {
            events: Events::new(node),
            node_name: node.to_owned(),
            node: NodeReport { created_at: Some(now), ..NodeReport::default() },
            problems: Vec::new(),
        };
        let store = Memory::with_history(first, HISTORY_BYTES);
        let shown_node = watch::channel(Arc::default()).0;
        let (new_events, copied) = (Notify::new(), OnceLock::new());
        let board = Self { store, state: Mutex::new(state), new_events, copied, shown_node };
        board.put_node(&board.state());
        Arc::new(board)
    }

    /// The store that the API serves.
    pub fn store(&self) -> &Memory {
        &self.store
    }

    /// The node as it is shown, the latest.
    pub fn node(&self) -> watch::Receiver<Arc<Map<String, Value>>> {
        self.shown_node.subscribe()
    }

    /// Takes what the outbox holds, for as long as the task lives.
    pub async fn drain(self: Arc<Self>, outbox: Arc<Outbox>) {
        loop {
            let next_expiry = self.state().events.next_expiry(Timestamp::now());
            let mail = match next_expiry {
                // Nothing arrives in time: the oldest event goes all the same.
                Some(after) => tokio::time::timeout(after, outbox.take()).await.unwrap_or_default(),
                None => outbox.take().await,
            };
            self.post(mail, Timestamp::now());
        }
    }

    /// Puts up everything that was reported.
    pub fn post(&self, mail: Mail, now: Timestamp) {
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
        if mail.node.is_some() || mail.problems.is_some() {
            if let Some(report) = mail.node {
                let created_at = report.created_at.or(state.node.created_at);
                state.node = NodeReport { created_at, ..*report };
            }
            state.problems = mail.problems.unwrap_or(std::mem::take(&mut state.problems));
            self.put_node(&state);
        }
        for note in mail.notes {
            if let Some(object) = state.events.record(&note) {
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

    /// The events that are shown, the latest last.
    pub fn events(&self) -> Vec<Map<String, Value>> {
        let listed = self.store.list(resources::EVENTS, &Scope::All).objects;
        let mut events: Vec<Map<String, Value>> = listed.iter().map(|object| object.decode()).collect();
        // Both are of one form and length, so that their order is that of time.
        let text = |event: &Map<String, Value>| event.get("lastTimestamp").map(Value::to_string);
        events.sort_by_cached_key(text);
        events
    }

    /// What happens from now on, once more, for whoever tells a cluster.
    pub fn copied_events(&self) -> Arc<report::Events> {
        self.copied.get_or_init(Arc::default).clone()
    }

    /// Waits until there are events that there were not when this was asked last.
    pub async fn new_events(&self) {
        self.new_events.notified().await;
    }

    /// Shows events of an earlier kubelet, the latest last, but for those whose time is over.
    pub fn restore_events(&self, events: &[Map<String, Value>], now: Timestamp) {
        let mut state = self.state();
        for event in events.iter().filter_map(|event| state.events.restore(event, now)) {
            self.put(resources::EVENTS, &event);
        }
    }

    /// Makes the objects of a kind those given, and no others; for ConfigMaps and Secrets of local sources.
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

    /// An object that bears no time of its own is as old as its first showing.
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
        let object = node::object(&state.node_name, &state.node, &state.problems);
        self.put(resources::NODES, &object);
        self.shown_node.send_replace(Arc::new(object));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
