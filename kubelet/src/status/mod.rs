//! Status manager: converts reports about pods, events and the node into API objects in the local store.
//!
//! All objects that the local API serves are written by [`StatusManager`].

mod event_log;
pub mod events;
mod node;
mod node_identity;
mod pods;
pub mod resources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use apiserver::watch_cache::{Draft, Scope, WatchCache};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};

use crate::observed::PodUid;
use crate::report::{self, EndedPods, Mail, NodeReport, Note, Outbox, Report, Severity};
pub use event_log::EventLog;
use events::EventCorrelator;
pub use node_identity::NodeIdentity;

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
    ended: Arc<EndedPods>,
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
    /// UID of the Node object.
    node_uid: String,
    /// The pods that other sources own. All other Pod objects were pushed.
    own_pods: BTreeSet<PodUid>,
    /// The objects that [`StatusManager::set`] shows: UIDs by namespace and name, per resource.
    shown: BTreeMap<&'static str, BTreeMap<(String, String), String>>,
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
            node_uid: node.to_owned(),
            own_pods: BTreeSet::new(),
            shown: BTreeMap::new(),
        };
        let store = WatchCache::with_history(first, HISTORY_BYTES);
        let shown_node = watch::channel(Arc::default()).0;
        let (new_events, copied) = (Notify::new(), OnceLock::new());
        let status_manager =
            Self { store, state: Mutex::new(state), new_events, copied, shown_node, ended: Arc::default() };
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
                Report::Status { pod, status, .. } if pods::is_of_push(&pod) => {
                    self.put_status(&uid, &pod.metadata, &status);
                }
                Report::Status { pod, status, deletion } => {
                    let before = pods::find(&self.store, &uid, &pod.metadata);
                    let created = before.as_ref().and_then(pods::creation_timestamp);
                    let object = pods::object(&pod, &status, deletion, created, now);
                    if let Some(before) = before
                        && !pods::same_place(&before, &object)
                    {
                        self.store.delete(resources::PODS, before.namespace(), before.name());
                    }
                    self.put_own_pod(uid, &object);
                }
                Report::Gone => {
                    if let Some(object) = pods::find_by_uid(&self.store, &uid) {
                        if !self.state().own_pods.remove(&uid) {
                            self.ended.add(uid, object.namespace(), object.name());
                            continue;
                        }
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

    /// The pushed pods of which nothing is left on this node. The source of pushed objects completes their deletion.
    pub fn ended_pods(&self) -> Arc<EndedPods> {
        self.ended.clone()
    }

    /// Sets the identity of the Node object, which an earlier kubelet process may have created.
    pub fn identify(&self, identity: &NodeIdentity) {
        let mut state = self.state();
        state.node_uid = identity.uid.clone();
        state.node.created_at = Some(identity.created_at);
        self.put_node(&state);
    }

    /// Shows a pod of a source other than the API of the node. A pushed pod of the same name stays.
    fn put_own_pod(&self, uid: PodUid, object: &Map<String, Value>) {
        let mut state = self.state();
        let (namespace, name) =
            (pods::metadata_text(object, "namespace"), pods::metadata_text(object, "name"));
        let draft = Draft::new(object, &resources::fields(resources::PODS));
        let own_pods = &state.own_pods;
        let mut is_shown = false;
        self.store.update(resources::PODS, namespace, name, |current| {
            is_shown = current.is_none_or(|current| {
                current.uid() == uid.as_str() || own_pods.contains(&PodUid::new(current.uid()))
            });
            is_shown.then_some(draft)
        });
        if is_shown {
            state.own_pods.insert(uid);
        }
    }

    /// Writes the status of a pushed pod into its object, if the object is still there.
    fn put_status(&self, uid: &PodUid, metadata: &ObjectMeta, status: &PodStatus) {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        self.store.update(resources::PODS, namespace, name, |current| {
            let current = current.filter(|current| current.uid() == uid.as_str())?;
            let mut object = current.decode();
            object.insert("status".to_owned(), serde_json::to_value(status).ok()?);
            Some(Draft::new(&object, &resources::fields(resources::PODS)))
        });
    }

    /// Replaces all objects of a resource that local sources own. Pushed objects stay.
    pub fn set<'a, T: Serialize + 'a>(
        &self,
        resource: &'static str,
        objects: impl Iterator<Item = &'a T>,
        now: Timestamp,
    ) {
        let mut state = self.state();
        let shown = state.shown.remove(resource).unwrap_or_default();
        let is_own = |namespace: &str, name: &str, uid: &str| {
            shown.get(&(namespace.to_owned(), name.to_owned())).is_some_and(|shown| shown == uid)
        };
        let mut kept = BTreeMap::new();
        for object in objects {
            if let Ok(Value::Object(mut object)) = serde_json::to_value(object) {
                self.date(resource, &mut object, now);
                let fields = resources::fields(resource);
                let draft = Draft::new(&object, &fields);
                let (namespace, name) = (draft.namespace().to_owned(), draft.name().to_owned());
                let uid = pods::metadata_text(&object, "uid").to_owned();
                self.store.update(resource, &namespace, &name, |current| {
                    let is_pushed = current.is_some_and(|current| !is_own(&namespace, &name, current.uid()));
                    (!is_pushed).then_some(draft)
                });
                kept.insert((namespace, name), uid);
            }
        }
        for object in self.store.list(resource, &Scope::All).objects {
            let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
            if is_own(&namespace, &name, object.uid()) && !kept.contains_key(&(namespace, name)) {
                self.store.delete(resource, object.namespace(), object.name());
            }
        }
        state.shown.insert(resource, kept);
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
        let object = node::object(&state.node_name, &state.node_uid, &state.node, &problems);
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
