//! Pods that nobody ends any more: those of nodes that are gone, those that would go but whose node is out of service, and those
//! that were never given a node. Of those that have come to their end the oldest go when there are too many (`finished`).

mod finished;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::time::seconds;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::agenda::Next;
use super::client::{Client, Delete, Error, Kind};
use super::node_lifecycle::Ready;
use super::object::{Object, at};
use super::queue::{Controller, Queue};
use super::taint_eviction::DISRUPTION;
use super::world::{Change, World};
use finished::has_ended;

/// Its name in `--controllers`.
pub const NAME: &str = "pod-garbage-collector-controller";
/// How long a node is looked out for whose pods are there; the stock controller's.
const QUARANTINE: Duration = Duration::from_secs(40);
/// The taint by which a person says that a node does not run, and that whoever waits for it waits in vain.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// What a key of a node begins with; no namespace has such a name.
const NODE: &str = "node:";
/// The key of those that have come to their end.
const FINISHED: &str = "finished";

/// The controller.
#[derive(Debug)]
pub struct Collector {
    client: Client,
    world: World,
    gone: Mutex<Gone>,
}

impl Collector {
    /// Collects the pods of that world.
    pub fn new(client: Client, world: World) -> Self {
        Self { client, world, gone: Mutex::default() }
    }

    fn gone(&self) -> MutexGuard<'_, Gone> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear_pod(&self, change: &Change, queue: &Queue) {
        let Some(pod) = &change.now else { return };
        if has_ended(pod) {
            queue.add_in(FINISHED, finished::GATHER);
        }
        let before = change.before.as_deref();
        if !pod.node.is_empty()
            && before.is_none_or(|before| before.node != pod.node)
            && self.world.get(&Kind::NODE, "", &pod.node).is_none()
        {
            self.miss(&pod.node, queue);
        }
        if pod.is_ending && !before.is_some_and(|before| before.is_ending) {
            queue.add(&pod.key());
        }
    }

    fn hear_node(&self, change: &Change, queue: &Queue) {
        let before = change.before.as_deref();
        let Some(now) = &change.now else {
            return before.into_iter().for_each(|gone| self.miss(&gone.name, queue));
        };
        self.gone().is_there(&now.name);
        if is_out(now) && !before.is_some_and(is_out) {
            let ending = self.world.pods_on(&now.name).into_iter().filter(|pod| pod.is_ending);
            ending.for_each(|pod| queue.add(&pod.key()));
        }
    }

    /// A node is not there: its pods are looked at when it was not for long enough.
    fn miss(&self, node: &str, queue: &Queue) {
        let left = self.gone().left(node, Instant::now());
        queue.add_in(&format!("{NODE}{node}"), left);
    }

    /// The pods of a node that is not there: nobody else will ever say what became of them.
    async fn look_at_node(&self, name: &str) -> Result<Next, Error> {
        if self.world.get(&Kind::NODE, "", name).is_some()
            || self.client.find(&Kind::NODE, "", name).await?.is_some()
        {
            self.gone().is_there(name);
            return Ok(Next::Change);
        }
        let left = self.gone().left(name, Instant::now());
        if !left.is_zero() {
            return Ok(Next::In(left));
        }
        let condition = json!({
            "type": DISRUPTION, "status": "True", "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists", "lastTransitionTime": seconds(Timestamp::now()),
        });
        // One that cannot be taken away keeps no other.
        let mut failed = None;
        for pod in self.world.pods_on(name) {
            failed = self.collect(&pod, vec![condition.clone()]).await.err().or(failed);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.gone().is_there(name);
        Ok(Next::Change)
    }

    /// A pod that would go, and that nobody lets go.
    async fn look_at_pod(&self, key: &str) -> Result<Next, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(pod) = self.world.get(&Kind::POD, namespace, name) else { return Ok(Next::Change) };
        if is_stuck(&pod, self.world.get(&Kind::NODE, "", &pod.node).as_deref()) {
            self.collect(&pod, Vec::new()).await?;
        }
        Ok(Next::Change)
    }

    async fn collect(&self, pod: &Object, conditions: Vec<Value>) -> Result<(), Error> {
        if !has_ended(pod) {
            let patch = json!({
                "metadata": {"uid": pod.uid}, "status": {"phase": "Failed", "conditions": conditions},
            });
            let told = self.client.patch_part(&Kind::POD, &pod.namespace, &pod.name, "status", patch).await;
            if told.as_ref().is_err_and(Error::is_not_found) {
                return Ok(());
            }
            told?;
        }
        let how = Delete { uid: Some(&pod.uid), grace_seconds: Some(0), ..Delete::default() };
        self.client.delete(&Kind::POD, &pod.namespace, &pod.name, &how).await?;
        let (namespace, name, node) = (&pod.namespace, &pod.name, &*pod.node);
        tracing::info!(namespace, name, node, "a pod that nobody ends any more is taken away");
        Ok(())
    }
}

/// Since when nodes are not there whose pods are.
#[derive(Debug, Default)]
struct Gone(HashMap<String, Instant>);

impl Gone {
    /// A node is there, or nobody looks out for it any more.
    fn is_there(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// How long it is still looked out for a node that is not there.
    fn left(&mut self, node: &str, now: Instant) -> Duration {
        let since = *self.0.entry(node.to_owned()).or_insert(now);
        (since + QUARANTINE).saturating_duration_since(now)
    }
}

/// Whether a person has said that a node does not run, and it does not say otherwise.
fn is_out(node: &Object) -> bool {
    let taints = at(&node.kept, "/spec/taints").and_then(Value::as_array);
    let is_ours = |taint: &Value| taint.get("key").and_then(Value::as_str) == Some(OUT_OF_SERVICE);
    Ready::of(&node.kept) != Ready::Yes && taints.is_some_and(|taints| taints.iter().any(is_ours))
}

/// Whether a pod would go and nobody lets it.
fn is_stuck(pod: &Object, node: Option<&Object>) -> bool {
    pod.is_ending && (pod.node.is_empty() || node.is_some_and(is_out))
}

#[async_trait]
impl Controller for Collector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        if change.kind.is(&Kind::POD) {
            self.hear_pod(change, queue);
        } else if change.kind.is(&Kind::NODE) {
            self.hear_node(change, queue);
        }
    }

    async fn look(&self, key: &str, _: &Queue) -> Result<Next, Error> {
        match key.strip_prefix(NODE) {
            Some(node) => self.look_at_node(node).await,
            None if key == FINISHED => finished::collect(&self.client, &self.world, finished::KEPT).await,
            None => self.look_at_pod(key).await,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Who is stuck.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn a_node_that_comes_back_is_looked_out_for_anew() {
        let (mut gone, start) = (Gone::default(), Instant::now());
        let left =
            |gone: &mut Gone, seconds: u64| gone.left("a", start + Duration::from_secs(seconds)).as_secs();
        assert_eq!((left(&mut gone, 0), left(&mut gone, 30)), (40, 10));
        gone.is_there("a");
        assert_eq!((left(&mut gone, 39), left(&mut gone, 40)), (40, 39));
        assert_eq!((left(&mut gone, 78), left(&mut gone, 79), left(&mut gone, 500)), (1, 0, 0));
    }

    #[test]
    fn a_pod_is_stuck_without_a_node_and_with_one_that_is_out_of_service() {
        let node = |ready: &str, taint: &str| {
            let node = json!({"spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            Object::of("nodes", node.as_object().unwrap())
        };
        let pod = |is_ending: bool, node: &str| Object { is_ending, node: node.into(), ..Object::default() };
        let (out, back) = (node("Unknown", OUT_OF_SERVICE), node("True", OUT_OF_SERVICE));
        let silent = node("Unknown", "node.kubernetes.io/unreachable");
        for (pod, node, expected) in [
            (pod(true, ""), None, true),
            (pod(false, ""), None, false),
            (pod(true, "a"), Some(&out), true),
            (pod(false, "a"), Some(&out), false),
            (pod(true, "a"), Some(&back), false),
            (pod(true, "a"), Some(&silent), false),
            (pod(true, "a"), None, false),
        ] {
            assert_eq!(is_stuck(&pod, node), expected, "{pod:?} {node:?}");
        }
    }
}
