//! Event recorder of the scheduler. Events are dropped when the queue is full, as in the stock scheduler.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use api::time::seconds;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::pod::Pod;
use crate::controllers::{Client, Kind};

/// Maximum number of queued events, as in the stock recorder. Further events are dropped.
const MAX_QUEUED: usize = 1000;
/// Maximum number of events whose count is remembered. A forgotten event is counted from 1 again.
const MAX_COUNTED: usize = 10_000;
/// Maximum length of the pod name in an event name. The suffix takes 17 of the 253 characters.
const MAX_NAME_PREFIX: usize = 236;

/// The pod of an event.
#[derive(Clone, Debug)]
pub struct PodRef {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    scheduler_name: String,
}

impl PodRef {
    /// Copies the fields that an event needs.
    pub fn of(pod: &Pod) -> Self {
        let Pod { namespace, name, uid, resource_version, scheduler_name, .. } = pod;
        let [namespace, name, uid, resource_version, scheduler_name] =
            [namespace, name, uid, resource_version, scheduler_name].map(Clone::clone);
        Self { namespace, name, uid, resource_version, scheduler_name }
    }
}

/// An event to be written.
#[derive(Clone, Debug)]
pub struct PodEvent {
    /// The involved pod.
    pub pod: PodRef,
    /// The kind of the event, which decides its type, reason and action.
    pub kind: EventKind,
    /// The event message.
    pub message: String,
}

/// The events that the scheduler records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The pod was bound to a node.
    Scheduled,
    /// No node fits the pod, or scheduling failed.
    FailedScheduling,
    /// The pod is a preemption victim.
    Preempted,
}

impl EventKind {
    /// Returns the type, reason and action of the event, as in the stock scheduler.
    fn type_reason_action(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Scheduled => ("Normal", "Scheduled", "Binding"),
            Self::FailedScheduling => ("Warning", "FailedScheduling", "Scheduling"),
            Self::Preempted => ("Normal", "Preempted", "Preempting"),
        }
    }
}

/// Queues events for [`write()`].
#[derive(Clone, Debug)]
pub struct EventRecorder(mpsc::Sender<PodEvent>);

impl EventRecorder {
    /// Creates a recorder, and the receiver for [`write()`].
    pub fn new() -> (Self, mpsc::Receiver<PodEvent>) {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED);
        (Self(sender), receiver)
    }

    /// Queues an event. Drops it if the queue is full.
    pub fn record(&self, event: PodEvent) {
        if self.0.try_send(event).is_err() {
            tracing::debug!("the event queue is full; dropped an event");
        }
    }
}

/// Writes queued events until all recorders are dropped. A repeated event increments the count of the first one.
pub async fn write(client: Client, mut events: mpsc::Receiver<PodEvent>) {
    let mut counts = HashMap::<String, u64>::new();
    while let Some(event) = events.recv().await {
        let name = event_name(&event);
        let now = seconds(Timestamp::now());
        if counts.len() >= MAX_COUNTED {
            counts.clear();
        }
        let written = match client
            .create(&Kind::EVENT, &event.pod.namespace, event_object(&event, &name, &now))
            .await
        {
            Err(error) if error.exists() => {
                let count = counts.entry(name.clone()).or_insert(1);
                *count += 1;
                let again = json!({"count": *count, "lastTimestamp": now});
                client.patch(&Kind::EVENT, &event.pod.namespace, &name, again).await
            }
            written => written,
        };
        if let Err(error) = written {
            tracing::debug!(error = error.full_message(), "cannot write an event");
        }
    }
}

/// Returns the name of an event. The same pod and message get the same name, so that repeated events are counted.
fn event_name(event: &PodEvent) -> String {
    let mut hasher = DefaultHasher::new();
    (&event.pod.uid, &event.message).hash(&mut hasher);
    let short: String = event.pod.name.chars().take(MAX_NAME_PREFIX).collect();
    format!("{}.{:016x}", short.trim_end_matches(['.', '-']), hasher.finish())
}

fn event_object(event: &PodEvent, name: &str, now: &str) -> Value {
    let PodEvent { pod, kind, message } = event;
    let (event_type, reason, action) = kind.type_reason_action();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": pod.namespace},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid,
            "resourceVersion": pod.resource_version,
        },
        "type": event_type,
        "reason": reason,
        "action": action,
        "message": message,
        "source": {"component": pod.scheduler_name},
        "reportingComponent": pod.scheduler_name,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    })
}
