//! Pods on a node that ends them are deleted when what they bear is over, by the clock of who counts.
//!
//! It is a deletion like any other: a pod whose node is away waits for it, and its end is told when the node is back.

mod plan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

pub use self::plan::DISRUPTION;
use self::plan::Stays;
use super::agenda::Next;
use super::awake::{Awake, PULSE};
use super::client::{Client, Delete, Error, Json, Kind};
use super::node_lifecycle::ending;
use super::object::{Object, at, text};
use super::queue::{Controller, Queue};
use super::tell::{Told, tell};
use super::world::{Change, World};

/// Its name in `--controllers`, that of the stock one.
pub const NAME: &str = "taint-eviction-controller";
/// Pods that are looked at at once; the stock controller's.
const WORKERS: usize = 8;
/// What is looked at while pods are counted: whether this process is awake. No pod is called so: it lies in no namespace.
const AWAKE: &str = "awake";

/// The controller.
#[derive(Debug)]
pub struct Evictions {
    client: Client,
    world: World,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    awake: Awake,
    /// Pods that are to go, by key.
    counted: HashMap<String, Counted>,
}

/// A pod that bears what ends it for a while.
#[derive(Clone, Debug)]
struct Counted {
    uid: String,
    since: Instant,
}

impl Evictions {
    /// Ends pods of that world.
    pub fn new(client: Client, world: World) -> Self {
        let state = State { awake: Awake::new(PULSE), counted: HashMap::new() };
        Self { client, world, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The taints of a node that end its pods.
    fn ending(&self, node: &str) -> Vec<(String, String)> {
        self.world.get(&Kind::NODE, "", node).map(|node| ending(&node.kept)).unwrap_or_default()
    }

    /// Since when the pod has been counted, if it can be told at all.
    fn since(&self, key: &str, pod: &Object, queue: &Queue) -> Option<Instant> {
        let seen = self.world.followed(&Kind::NODE)?;
        let mut state = self.state();
        if state.counted.is_empty() {
            queue.add(AWAKE);
        }
        let fresh = || Counted { uid: pod.uid.clone(), since: Instant::now() };
        let counted = state.counted.entry(key.to_owned()).or_insert_with(fresh);
        if counted.uid != pod.uid {
            *counted = fresh();
        }
        let since = counted.since.max(seen);
        Some(state.awake.at_earliest(since))
    }

    /// Notes that somebody looks; whether no pod is counted, and how often to look while one is.
    fn wake(&self) -> (bool, Duration) {
        let mut state = self.state();
        state.awake.look(Instant::now());
        (state.counted.is_empty(), state.awake.pulse())
    }

    fn forget(&self, key: &str) -> Option<Counted> {
        self.state().counted.remove(key)
    }

    /// A pod that stays after all.
    async fn stays(&self, key: &str, pod: &Object) -> Next {
        if self.forget(key).is_some() {
            self.tell(pod, &format!("Cancelling deletion of Pod {key}")).await;
        }
        Next::Change
    }

    async fn evict(&self, key: &str, pod: &Object, found: &Json) -> Result<Next, Error> {
        if let Some(condition) = plan::target(found, Timestamp::now()) {
            let patch = json!({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}});
            self.client.patch_part(&Kind::POD, &pod.namespace, &pod.name, "status", patch).await?;
        }
        let how = Delete { uid: Some(&pod.uid), ..Delete::default() };
        self.client.delete(&Kind::POD, &pod.namespace, &pod.name, &how).await?;
        self.forget(key);
        tracing::info!(pod = key, node = &*pod.node, "a pod is deleted that its node does not bear any more");
        self.tell(pod, &format!("Marking for deletion Pod {key}")).await;
        Ok(Next::Change)
    }

    async fn tell(&self, pod: &Object, message: &str) {
        let told = Told {
            kind: &Kind::POD,
            namespace: &pod.namespace,
            name: &pod.name,
            uid: &pod.uid,
            is_warning: false,
            reason: "TaintManagerEviction",
            message,
            component: NAME,
        };
        tell(&self.client, told).await;
    }

    async fn look_at_pod(&self, key: &str, queue: &Queue) -> Result<Next, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let pod = self.world.get(&Kind::POD, namespace, name).filter(|pod| !pod.is_ending);
        let Some(pod) = pod else {
            self.forget(key);
            return Ok(Next::Change);
        };
        let taints = self.ending(&pod.node);
        if taints.is_empty() {
            return Ok(self.stays(key, &pod).await);
        }
        let found = self.client.find(&Kind::POD, namespace, name).await?;
        let goes = |found: &Json| at(found, "/metadata/deletionTimestamp").is_some();
        let found = found.filter(|found| text(at(found, "/metadata/uid")) == pod.uid && !goes(found));
        let Some(found) = found else { return Ok(Next::Change) };
        let bears = match plan::stays(&found, &taints) {
            Stays::Forever => return Ok(self.stays(key, &pod).await),
            Stays::For(bears) => bears,
        };
        let Some(since) = self.since(key, &pod, queue) else { return Ok(Next::In(PULSE)) };
        let left = (since + bears).saturating_duration_since(Instant::now());
        if left.is_zero() { self.evict(key, &pod, &found).await } else { Ok(Next::In(left)) }
    }
}

#[async_trait]
impl Controller for Evictions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        if change.kind.is(&Kind::POD) {
            let Some(pod) = change.object().filter(|pod| !pod.node.is_empty()) else { return };
            let key = pod.key();
            if self.state().counted.contains_key(&key) || !self.ending(&pod.node).is_empty() {
                queue.add(&key);
            }
        } else if change.kind.is(&Kind::NODE) {
            let of = |node: Option<&Arc<Object>>| node.map(|node| ending(&node.kept)).unwrap_or_default();
            let Some(node) = change.object() else { return };
            if of(change.before.as_ref()) != of(change.now.as_ref()) {
                self.world.pods_on(&node.name).iter().for_each(|pod| queue.add(&pod.key()));
            }
        }
    }

    async fn look(&self, key: &str, queue: &Queue) -> Result<Next, Error> {
        let (is_idle, pulse) = self.wake();
        match key {
            AWAKE if is_idle => Ok(Next::Change),
            AWAKE => Ok(Next::In(pulse)),
            _ => self.look_at_pod(key, queue).await,
        }
    }
}
