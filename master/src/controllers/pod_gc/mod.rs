//! The pod garbage collector: deletes pods of deleted nodes, terminating pods of out-of-service nodes, and terminating
//! unbound pods. It also deletes the oldest terminated pods above a threshold ([`terminated`]).

mod terminated;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::time::seconds;
use async_trait::async_trait;
use client::{Client, DeleteOptions, Error, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::fields::DISRUPTION_TARGET;
use super::informers::{Change, SharedInformers};
use super::node_lifecycle::Ready;
use super::object::Object;
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use crate::objects::Taint;

/// The controller's name in `--controllers`.
pub const NAME: &str = "pod-garbage-collector-controller";
/// How long a node must be missing before its pods are deleted, as in stock Kubernetes.
const QUARANTINE: Duration = Duration::from_secs(40);
/// The taint by which an administrator declares that a node will not come back.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// Prefix of node keys. No namespace can have this name.
const NODE_PREFIX: &str = "node:";
/// The key for terminated pods.
const TERMINATED_KEY: &str = "finished";

/// The pod garbage collector.
#[derive(Debug)]
pub struct PodGcController {
    client: Client,
    informers: SharedInformers,
    missing_nodes: Mutex<MissingNodes>,
}

impl PodGcController {
    /// Creates the controller. It deletes pods of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers, missing_nodes: Mutex::default() }
    }

    fn missing_nodes(&self) -> MutexGuard<'_, MissingNodes> {
        self.missing_nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_pod_change(&self, change: &Change, queue: &WorkQueue) {
        let Some(pod) = &change.now else { return };
        let node = &pod.pod().node;
        if pod.pod().is_terminal() {
            queue.add_in(TERMINATED_KEY, terminated::BATCH_PERIOD);
        }
        let before = change.before.as_deref();
        if !node.is_empty()
            && before.is_none_or(|before| before.pod().node != *node)
            && self.informers.get(&Kind::NODE, "", node).is_none()
        {
            self.node_missing(node, queue);
        }
        if pod.is_terminating && !before.is_some_and(|before| before.is_terminating) {
            queue.add(&pod.key());
        }
    }

    fn on_node_change(&self, change: &Change, queue: &WorkQueue) {
        let before = change.before.as_deref();
        let Some(now) = &change.now else {
            return before.into_iter().for_each(|gone| self.node_missing(&gone.name, queue));
        };
        self.missing_nodes().forget(&now.name);
        if is_out_of_service(now) && !before.is_some_and(is_out_of_service) {
            let ending = self.informers.pods_on(&now.name).into_iter().filter(|pod| pod.is_terminating);
            ending.for_each(|pod| queue.add(&pod.key()));
        }
    }

    /// Enqueues a missing node for the end of its quarantine.
    fn node_missing(&self, node: &str, queue: &WorkQueue) {
        let left = self.missing_nodes().remaining_quarantine(node, Instant::now());
        queue.add_in(&format!("{NODE_PREFIX}{node}"), left);
    }

    /// Deletes the pods of a deleted node, whose status no kubelet will report.
    async fn reconcile_node(&self, name: &str) -> Result<Action, Error> {
        if self.informers.get(&Kind::NODE, "", name).is_some()
            || self.client.find(&Kind::NODE, "", name).await?.is_some()
        {
            self.missing_nodes().forget(name);
            return Ok(Action::AwaitChange);
        }
        let left = self.missing_nodes().remaining_quarantine(name, Instant::now());
        if !left.is_zero() {
            return Ok(Action::RequeueAfter(left));
        }
        let condition = json!({
            "type": DISRUPTION_TARGET, "status": "True", "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists", "lastTransitionTime": seconds(Timestamp::now()),
        });
        // A failed deletion does not stop the others.
        let mut failed = None;
        for pod in self.informers.pods_on(name) {
            failed = self.force_delete(&pod, vec![condition.clone()]).await.err().or(failed);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.missing_nodes().forget(name);
        Ok(Action::AwaitChange)
    }

    /// Deletes a terminating pod that no kubelet will finish.
    async fn reconcile_pod(&self, key: &str) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(pod) = self.informers.get(&Kind::POD, namespace, name) else {
            return Ok(Action::AwaitChange);
        };
        if is_stuck(&pod, self.informers.get(&Kind::NODE, "", &pod.pod().node).as_deref()) {
            self.force_delete(&pod, Vec::new()).await?;
        }
        Ok(Action::AwaitChange)
    }

    async fn force_delete(&self, pod: &Object, conditions: Vec<Value>) -> Result<(), Error> {
        if !pod.pod().is_terminal() {
            let patch = json!({
                "metadata": {"uid": pod.uid}, "status": {"phase": "Failed", "conditions": conditions},
            });
            let told =
                self.client.patch_subresource(&Kind::POD, &pod.namespace, &pod.name, "status", patch).await;
            if told.as_ref().is_err_and(Error::is_not_found) {
                return Ok(());
            }
            told?;
        }
        let how = DeleteOptions { uid: Some(&pod.uid), grace_seconds: Some(0), ..DeleteOptions::default() };
        self.client.delete(&Kind::POD, &pod.namespace, &pod.name, &how).await?;
        let (namespace, name, node) = (&pod.namespace, &pod.name, &*pod.pod().node);
        tracing::info!(namespace, name, node, "force-deleted a pod that no kubelet can terminate");
        Ok(())
    }
}

/// The nodes that do not exist although their pods do, and the time since when.
#[derive(Debug, Default)]
struct MissingNodes(HashMap<String, Instant>);

impl MissingNodes {
    /// Stops tracking a node.
    fn forget(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// The rest of the quarantine of a missing node.
    fn remaining_quarantine(&mut self, node: &str, now: Instant) -> Duration {
        let since = *self.0.entry(node.to_owned()).or_insert(now);
        (since + QUARANTINE).saturating_duration_since(now)
    }
}

/// Whether the node is not ready and has the out-of-service taint.
fn is_out_of_service(node: &Object) -> bool {
    let is_ours = |taint: &Taint| &*taint.key == OUT_OF_SERVICE;
    Ready::of(node.node()) != Ready::Yes && node.node().spec.taints.iter().any(is_ours)
}

/// Whether the pod is terminating and no kubelet will finish it.
fn is_stuck(pod: &Object, node: Option<&Object>) -> bool {
    pod.is_terminating && (pod.pod().node.is_empty() || node.is_some_and(is_out_of_service))
}

#[async_trait]
impl Controller for PodGcController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::POD) {
            self.on_pod_change(change, queue);
        } else if change.kind.is(&Kind::NODE) {
            self.on_node_change(change, queue);
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        match key.strip_prefix(NODE_PREFIX) {
            Some(node) => self.reconcile_node(node).await,
            None if key == TERMINATED_KEY => {
                terminated::collect(&self.client, &self.informers, terminated::THRESHOLD).await
            }
            None => self.reconcile_pod(key).await,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of quarantine of missing nodes, and stuck pods.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;
    use crate::controllers::fields::{Fields, PodFields};

    #[test]
    fn the_quarantine_of_a_node_restarts_when_it_comes_back() {
        let (mut gone, start) = (MissingNodes::default(), Instant::now());
        let left = |gone: &mut MissingNodes, seconds: u64| {
            gone.remaining_quarantine("a", start + Duration::from_secs(seconds)).as_secs()
        };
        assert_eq!((left(&mut gone, 0), left(&mut gone, 30)), (40, 10));
        gone.forget("a");
        assert_eq!((left(&mut gone, 39), left(&mut gone, 40)), (40, 39));
        assert_eq!((left(&mut gone, 78), left(&mut gone, 79), left(&mut gone, 500)), (1, 0, 0));
    }

    #[test]
    fn a_pod_is_stuck_without_a_node_and_with_one_that_is_out_of_service() {
        let node = |ready: &str, taint: &str| {
            let node = json!({"spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            Object::decode("nodes", node.as_object().unwrap()).unwrap()
        };
        let pod = |is_terminating: bool, node: &str| Object {
            is_terminating,
            fields: Fields::Pod(PodFields { node: node.into(), ..PodFields::default() }),
            ..Object::default()
        };
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
