//! A container engine in memory, for tests and for nodes without an engine. It passes the same contract tests as
//! Docker, and fails on request.
//!
//! A container with the command `sh -c SCRIPT` runs the script as far as [`program`] understands it. Any other
//! command runs until it is stopped. Times follow the clock of tokio, which tests can pause.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod containers;
mod images;
mod program;
mod runtime;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::contract::Bench;
use super::{Error, Event, Inspected};
use crate::observed::Timestamp;
use containers::Record;
use images::ImageStore;

/// The images that exist from the start.
const SANDBOX_IMAGE: &str = "coracle/pause:fake";
pub const IMAGE: &str = "coracle/busybox:1";
/// How long a hung inspection takes to fail; the same as the timeout for Docker.
pub const HANG: Duration = Duration::from_secs(15);
/// Capacity of the event channel, which is allocated at the start.
const EVENTS: usize = 256;

/// The fake engine that one node uses.
#[derive(Clone)]
pub struct Fake {
    engine: Arc<Engine>,
    node: String,
}

struct Engine {
    began: Instant,
    /// Timestamp that corresponds to `began`.
    first: Timestamp,
    containers: Mutex<BTreeMap<String, Record>>,
    images: Mutex<ImageStore>,
    faults: Mutex<Faults>,
    /// The recorded calls, or `None` for an engine that runs long.
    calls: Option<Mutex<Vec<String>>>,
    events: broadcast::Sender<(String, Event)>,
    /// False while the engine is unavailable.
    up: watch::Sender<bool>,
}

#[derive(Default)]
struct Faults {
    next_id: u64,
    hung: BTreeSet<String>,
    /// Errors of the next calls, by method.
    next: BTreeMap<&'static str, Vec<Error>>,
}

impl Fake {
    /// Creates an engine with the images of the contract tests.
    pub fn new(node: &str) -> Self {
        Self::of(node, "2026-01-01T00:00:00Z".parse().unwrap(), Some(Mutex::default()))
    }

    /// Creates an engine for a node that runs long. It uses real timestamps and records no calls.
    pub fn long_running(node: &str) -> Self {
        Self::of(node, Timestamp::now(), None)
    }

    fn of(node: &str, first: Timestamp, calls: Option<Mutex<Vec<String>>>) -> Self {
        let engine = Engine {
            began: Instant::now(),
            first,
            containers: Mutex::default(),
            images: Mutex::new(ImageStore::with(&[SANDBOX_IMAGE, IMAGE])),
            faults: Mutex::default(),
            calls,
            events: broadcast::Sender::new(EVENTS),
            up: watch::Sender::new(true),
        };
        Self { engine: Arc::new(engine), node: node.to_owned() }
    }

    /// Returns the same engine for another node.
    pub fn neighbour(&self, node: &str) -> Self {
        Self { engine: self.engine.clone(), node: node.to_owned() }
    }

    /// The bench for contract tests of this engine.
    pub fn bench(&self) -> Bench {
        Bench {
            runtime: Arc::new(self.clone()),
            neighbour: Arc::new(self.neighbour("neighbour")),
            sandbox_image: SANDBOX_IMAGE.to_owned(),
            image: IMAGE.to_owned(),
        }
    }

    /// Makes the engine available or unavailable. Containers keep running, and streams end.
    pub fn set_up(&self, up: bool) {
        self.engine.up.send_replace(up);
    }

    /// Makes inspections of a container hang or answer.
    pub fn set_hung(&self, id: &str, hung: bool) {
        let mut faults = self.engine.faults.lock().unwrap();
        if hung {
            faults.hung.insert(id.to_owned())
        } else {
            faults.hung.remove(id)
        };
    }

    /// Makes the next call of a method (`"start"`, `"inspect"`, ...) fail. Several errors are queued.
    pub fn fail_next(&self, method: &'static str, error: Error) {
        self.engine.faults.lock().unwrap().next.entry(method).or_default().push(error);
    }

    /// The recorded calls with their subject, such as `"inspect abc"`.
    pub fn calls(&self) -> Vec<String> {
        self.engine.calls.iter().flat_map(|calls| calls.lock().unwrap().clone()).collect()
    }

    /// Ends a container as if its process had exited.
    pub fn exit(&self, id: &str, code: i32) {
        self.engine.end(id, code, false);
    }

    /// Removes a container as an external client would. With `silently`, there is no event.
    pub fn vanish(&self, id: &str, silently: bool) {
        self.engine.take(id, silently);
    }

    /// All containers of this node, as an inspection returns them.
    pub fn all(&self) -> Vec<Inspected> {
        let containers = self.engine.containers();
        containers.values().filter(|record| record.node == self.node).map(Record::seen).collect()
    }

    /// Publishes an image in the registry, optionally restricted to one user.
    pub fn publish(&self, name: &str, user: Option<(&str, &str)>) {
        self.engine.images.lock().unwrap().publish(name, user);
    }

    /// The pulls that were requested, as `name` or `name as user`.
    pub fn pulls(&self) -> Vec<String> {
        self.engine.images.lock().unwrap().pulls.clone()
    }
}

impl Engine {
    fn containers(&self) -> MutexGuard<'_, BTreeMap<String, Record>> {
        self.containers.lock().unwrap()
    }

    /// The timestamp that corresponds to the clock of tokio.
    fn now(&self) -> Timestamp {
        self.first + self.began.elapsed()
    }

    fn new_id(&self) -> String {
        let mut faults = self.faults.lock().unwrap();
        faults.next_id += 1;
        format!("{:064x}", faults.next_id)
    }

    fn send_event(&self, record: &Record, removed: bool) {
        let event = Event { id: record.id.clone(), uid: record.identity.uid.clone(), removed };
        // There may be no subscriber.
        let _ = self.events.send((record.node.clone(), event));
    }

    /// Records a call, if calls are recorded.
    fn note(&self, what: impl FnOnce() -> String) {
        if let Some(calls) = &self.calls {
            calls.lock().unwrap().push(what());
        }
    }

    /// Records the call and returns a queued error. Each method calls it at its start.
    fn enter(&self, method: &'static str, what: &str) -> Result<(), Error> {
        self.note(|| format!("{method} {what}").trim_end().to_owned());
        if !*self.up.borrow() {
            return Err(Error::Unreachable { operation: method, message: "connection refused".to_owned() });
        }
        let mut faults = self.faults.lock().unwrap();
        match faults.next.get_mut(method) {
            Some(errors) if !errors.is_empty() => Err(errors.remove(0)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests that the fake engine passes the contract tests.

    use super::*;

    async fn bench(test: &str) -> Bench {
        Fake::new(test).bench()
    }

    crate::runtime_contract!(bench);
}
