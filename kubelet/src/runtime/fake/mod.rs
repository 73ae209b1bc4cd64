//! An engine in memory, for tests and for nodes without an engine: it passes the contract that Docker passes, and fails on command.
//!
//! A container whose command is `sh -c SCRIPT` runs that script as far as [`program`] understands it; any other runs
//! until it is told to end. Times follow tokio's clock, so that they can be paused.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

mod containers;
mod door;
mod images;
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::contract::Bench;
use super::{Error, Event, Seen};
use crate::observed::Timestamp;
use containers::Record;
use images::Shelf;

/// The images it begins with.
const SANDBOX_IMAGE: &str = "coracle/pause:fake";
pub const IMAGE: &str = "coracle/busybox:1";
/// How long a hung look takes to fail, as Docker's limit does.
pub const HANG: Duration = Duration::from_secs(15);
/// Events that somebody who is slow has not heard yet; room for all of them is taken at once.
const EVENTS: usize = 256;

/// The engine as one node sees it.
#[derive(Clone)]
pub struct Fake {
    engine: Arc<Engine>,
    node: String,
}

struct Engine {
    began: Instant,
    /// The date of that.
    first: Timestamp,
    containers: Mutex<BTreeMap<String, Record>>,
    images: Mutex<Shelf>,
    faults: Mutex<Faults>,
    /// What was asked; of one that is to last, nothing is kept.
    asked: Option<Mutex<Vec<String>>>,
    events: broadcast::Sender<(String, Event)>,
    /// False while nothing answers.
    up: watch::Sender<bool>,
}

#[derive(Default)]
struct Faults {
    next_id: u64,
    hung: BTreeSet<String>,
    /// By operation, what the next calls of it fail with.
    next: BTreeMap<&'static str, Vec<Error>>,
}

impl Fake {
    /// An engine with the images that the contract uses.
    pub fn new(node: &str) -> Self {
        Self::of(node, "2026-01-01T00:00:00Z".parse().unwrap(), Some(Mutex::default()))
    }

    /// The same, of one of many nodes that go on for long: its time is that of everybody, and it does not remember what it was asked.
    pub fn lasting(node: &str) -> Self {
        Self::of(node, Timestamp::now(), None)
    }

    fn of(node: &str, first: Timestamp, asked: Option<Mutex<Vec<String>>>) -> Self {
        let engine = Engine {
            began: Instant::now(),
            first,
            containers: Mutex::default(),
            images: Mutex::new(Shelf::with(&[SANDBOX_IMAGE, IMAGE])),
            faults: Mutex::default(),
            asked,
            events: broadcast::Sender::new(EVENTS),
            up: watch::Sender::new(true),
        };
        Self { engine: Arc::new(engine), node: node.to_owned() }
    }

    /// The same engine as another node sees it.
    pub fn neighbour(&self, node: &str) -> Self {
        Self { engine: self.engine.clone(), node: node.to_owned() }
    }

    /// What the contract wants of an engine, of this one.
    pub fn bench(&self) -> Bench {
        Bench {
            runtime: Arc::new(self.clone()),
            neighbour: Arc::new(self.neighbour("neighbour")),
            sandbox_image: SANDBOX_IMAGE.to_owned(),
            image: IMAGE.to_owned(),
        }
    }

    /// Ends its answers, or lets it answer again. Containers run on; streams end.
    pub fn set_up(&self, up: bool) {
        self.engine.up.send_replace(up);
    }

    /// Lets looks at a container hang, or answer again.
    pub fn set_hung(&self, id: &str, hung: bool) {
        let mut faults = self.engine.faults.lock().unwrap();
        if hung {
            faults.hung.insert(id.to_owned())
        } else {
            faults.hung.remove(id)
        };
    }

    /// The next call of a method of the trait (`"start"`, `"look"`, ...) fails so; later calls queue up.
    pub fn fail_next(&self, method: &'static str, error: Error) {
        self.engine.faults.lock().unwrap().next.entry(method).or_default().push(error);
    }

    /// Methods called so far, with what they were about: `"look abc"`.
    pub fn asked(&self) -> Vec<String> {
        self.engine.asked.iter().flat_map(|asked| asked.lock().unwrap().clone()).collect()
    }

    /// Ends a container as if its process had ended by itself.
    pub fn exit(&self, id: &str, code: i32) {
        self.engine.end(id, code, false);
    }

    /// Removes a container behind the kubelet's back, without an event when `silently`.
    pub fn vanish(&self, id: &str, silently: bool) {
        self.engine.take(id, silently);
    }

    /// Everything there is on this node, as a look sees it.
    pub fn all(&self) -> Vec<Seen> {
        let containers = self.engine.containers();
        containers.values().filter(|record| record.node == self.node).map(Record::seen).collect()
    }

    /// Lets a registry hold an image, for those credentials alone when there are any.
    pub fn publish(&self, name: &str, user: Option<(&str, &str)>) {
        self.engine.images.lock().unwrap().publish(name, user);
    }

    /// Pulls so far, as `name` or `name as user`.
    pub fn pulls(&self) -> Vec<String> {
        self.engine.images.lock().unwrap().pulls.clone()
    }
}

impl Engine {
    fn containers(&self) -> MutexGuard<'_, BTreeMap<String, Record>> {
        self.containers.lock().unwrap()
    }

    /// Tokio's time, as a date.
    fn now(&self) -> Timestamp {
        self.first + self.began.elapsed()
    }

    fn new_id(&self) -> String {
        let mut faults = self.faults.lock().unwrap();
        faults.next_id += 1;
        format!("{:064x}", faults.next_id)
    }

    fn tell(&self, record: &Record, removed: bool) {
        let event = Event { id: record.id.clone(), uid: record.identity.uid.clone(), removed };
        // Nobody may be listening.
        let _ = self.events.send((record.node.clone(), event));
    }

    /// Remembers what it was asked, where it does.
    fn note(&self, what: impl FnOnce() -> String) {
        if let Some(asked) = &self.asked {
            asked.lock().unwrap().push(what());
        }
    }

    /// What every call meets first.
    fn meet(&self, method: &'static str, what: &str) -> Result<(), Error> {
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
mod tests;
