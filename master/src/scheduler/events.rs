//! Tells people what became of pods, in events: as many as there is time for, as with the stock scheduler.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use api::time::seconds;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::pod::Pod;
use crate::controllers::{Client, Kind};

/// Events that wait; more are not told. The stock recorder's.
const MOST_WAITING: usize = 1000;
/// Events whose count is remembered; one that is forgotten is counted anew.
const MOST_KNOWN: usize = 10_000;
/// The longest name of a pod that a name of an event begins with, which is 17 letters longer.
const MOST_NAME: usize = 236;

/// Which pod.
#[derive(Clone, Debug)]
pub struct Name {
    namespace: String,
    name: String,
    uid: String,
    revision: String,
    scheduler: String,
}

impl Name {
    /// What tells that pod from all others.
    pub fn of(pod: &Pod) -> Self {
        let Pod { namespace, name, uid, revision, scheduler, .. } = pod;
        let [namespace, name, uid, revision, scheduler] =
            [namespace, name, uid, revision, scheduler].map(Clone::clone);
        Self { namespace, name, uid, revision, scheduler }
    }
}

/// What is to be told.
#[derive(Clone, Debug)]
pub struct Told {
    /// Of whom.
    pub pod: Name,
    /// What.
    pub what: What,
    /// For people.
    pub message: String,
}

/// What becomes of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It has a node.
    Scheduled,
    /// It has none.
    Refused,
    /// It is ended for another one.
    Preempted,
}

impl What {
    /// The type, the reason and the action of such an event; the stock scheduler's.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Scheduled => ("Normal", "Scheduled", "Binding"),
            Self::Refused => ("Warning", "FailedScheduling", "Scheduling"),
            Self::Preempted => ("Normal", "Preempted", "Preempting"),
        }
    }
}

/// The way to who writes events.
#[derive(Clone, Debug)]
pub struct Events(mpsc::Sender<Told>);

impl Events {
    /// A way, and its end for `write`.
    pub fn new() -> (Self, mpsc::Receiver<Told>) {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        (Self(sender), receiver)
    }

    /// Tells it, unless too much waits.
    pub fn tell(&self, told: Told) {
        if self.0.try_send(told).is_err() {
            tracing::debug!("too many events wait: one is not told");
        }
    }
}

/// Writes events for as long as it is polled.
pub async fn write(client: Client, mut events: mpsc::Receiver<Told>) {
    let mut counts = HashMap::<String, u64>::new();
    while let Some(told) = events.recv().await {
        let name = name_of(&told);
        let now = seconds(Timestamp::now());
        if counts.len() >= MOST_KNOWN {
            counts.clear();
        }
        let written = match client.create(&Kind::EVENT, &told.pod.namespace, event(&told, &name, &now)).await
        {
            Err(error) if error.exists() => {
                let count = counts.entry(name.clone()).or_insert(1);
                *count += 1;
                let again = json!({"count": *count, "lastTimestamp": now});
                client.patch(&Kind::EVENT, &told.pod.namespace, &name, again).await
            }
            written => written,
        };
        if let Err(error) = written {
            tracing::debug!(error = error.whole(), "an event is not told");
        }
    }
}

/// The same for the same pod and message.
fn name_of(told: &Told) -> String {
    let mut hasher = DefaultHasher::new();
    (&told.pod.uid, &told.message).hash(&mut hasher);
    let short: String = told.pod.name.chars().take(MOST_NAME).collect();
    format!("{}.{:016x}", short.trim_end_matches(['.', '-']), hasher.finish())
}

fn event(told: &Told, name: &str, now: &str) -> Value {
    let Told { pod, what, message } = told;
    let (kind, reason, action) = what.words();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": pod.namespace},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid,
            "resourceVersion": pod.revision,
        },
        "type": kind,
        "reason": reason,
        "action": action,
        "message": message,
        "source": {"component": pod.scheduler},
        "reportingComponent": pod.scheduler,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    })
}
