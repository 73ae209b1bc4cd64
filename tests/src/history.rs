//! Records and checks the Docker events of one node's containers during a test.
//!
//! Polling would miss short-lived states; the event stream does not.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bollard::query_parameters::EventsOptionsBuilder;
use futures_util::StreamExt;

use crate::{Engine, wait_until};

/// A lifecycle event of a container.
#[derive(Clone, Debug)]
pub struct Event {
    /// The action: `create`, `start`, `die` or `destroy`.
    pub action: String,
    /// Docker ID of the container.
    pub id: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container, `POD` for a sandbox.
    pub name: String,
    /// Restart count when the container was created.
    pub attempt: u32,
    /// Hash of the container spec, from the labels.
    pub hash: String,
    /// Time in nanoseconds since 1970.
    pub at: i64,
}

impl Event {
    /// Time from this event to a later one.
    pub fn until(&self, later: &Self) -> Duration {
        Duration::from_nanos(u64::try_from(later.at - self.at).unwrap_or(0))
    }
}

#[derive(Debug, Default)]
struct Recorded {
    events: Vec<Event>,
    running: BTreeMap<(String, String), BTreeSet<String>>,
    started: BTreeSet<String>,
    broken: Vec<String>,
}

/// All container events of a node since this value was created.
#[derive(Debug)]
pub struct History {
    recorded: Arc<Mutex<Recorded>>,
    task: tokio::task::JoinHandle<()>,
}

impl History {
    /// Starts to record the events of a node that has no containers yet.
    pub async fn of(engine: &Engine, node: &str) -> Self {
        let recorded = Arc::<Mutex<Recorded>>::default();
        let label = format!("io.kubernetes.node.name={node}");
        let actions = ["create", "start", "die", "destroy"].map(str::to_owned).to_vec();
        let filters = HashMap::from([
            ("label", vec![label]),
            ("type", vec!["container".to_owned()]),
            ("event", actions),
        ]);
        // The event stream starts a moment after the response. With a `since` time the engine also sends events from
        // before that.
        let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let options =
            EventsOptionsBuilder::new().since(&since.as_secs().to_string()).filters(&filters).build();
        let mut stream = engine.again().docker().events(Some(options));
        let into = recorded.clone();
        let task = tokio::spawn(async move {
            while let Some(Ok(message)) = stream.next().await {
                let actor = message.actor.unwrap_or_default();
                let labels = actor.attributes.unwrap_or_default();
                let label =
                    |name: &str| labels.get(&format!("io.kubernetes.{name}")).cloned().unwrap_or_default();
                into.lock().unwrap().take(Event {
                    action: message.action.unwrap_or_default(),
                    id: actor.id.unwrap_or_default(),
                    pod: label("pod.name"),
                    name: label("container.name"),
                    attempt: label("container.attempt").parse().unwrap_or(0),
                    hash: label("container.hash"),
                    at: message.time_nano.unwrap_or_default(),
                });
            }
        });
        Self { recorded, task }
    }

    /// All events so far, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.recorded.lock().unwrap().events.clone()
    }

    /// Returns the starts of a container, oldest first. `pod` is the pod's full name.
    pub fn starts(&self, pod: &str, name: &str) -> Vec<Event> {
        let mut events = self.events();
        events.retain(|event| event.action == "start" && event.pod == pod && event.name == name);
        events
    }

    /// Returns the violated invariants: two containers of a pod with one name ran at once, or one container was
    /// started twice.
    pub fn broken(&self) -> Vec<String> {
        self.recorded.lock().unwrap().broken.clone()
    }

    /// Waits until the start event of the given container has arrived. All earlier events have then arrived as
    /// well.
    pub async fn caught_up_with(&self, id: &str) {
        let recorded = async || {
            let recorded = self.recorded.lock().unwrap();
            if recorded.started.contains(id) { Ok(()) } else { Err(format!("no start event of {id}")) }
        };
        wait_until(crate::DEADLINE, recorded).await.unwrap();
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Recorded {
    fn take(&mut self, event: Event) {
        let who = (event.pod.clone(), event.name.clone());
        let what = format!("{}/{} attempt {} ({:.12})", event.pod, event.name, event.attempt, event.id);
        match event.action.as_str() {
            "start" => {
                if !self.started.insert(event.id.clone()) {
                    self.broken.push(format!("{what} was started twice"));
                }
                let running = self.running.entry(who).or_default();
                if let Some(other) = running.iter().next() {
                    self.broken.push(format!("{what} was started while {other:.12} ran"));
                }
                running.insert(event.id.clone());
            }
            "die" => {
                self.running.entry(who).or_default().remove(&event.id);
            }
            _ => {}
        }
        self.events.push(event);
    }
}
