//! The taint eviction controller: deletes pods that do not tolerate a `NoExecute` taint of their node, after their
//! toleration period.
//!
//! The deletion is graceful, so a pod on an unreachable node stays until the node is reachable again.

mod plan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use client::{Client, DeleteOptions, Error, Kind};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use self::plan::TolerationPeriod;
use super::event_recorder::{NewEvent, record_event};
use super::informers::{Change, SharedInformers};
use super::node_lifecycle::no_execute_taints;
use super::object::Object;
use super::rate_limited_queue::Action;
use super::suspend::{CHECK_INTERVAL, SuspendDetector};
use super::work_queue::{Controller, WorkQueue};
use crate::objects::{Pod, Taint};

/// The controller's stock name in `--controllers`.
pub const NAME: &str = "taint-eviction-controller";
/// Number of concurrent reconciliations, the stock default.
const WORKERS: usize = 8;
/// Key of the periodic suspend check while evictions are pending. Pod keys contain a slash, so they never equal
/// this key.
const SUSPEND_CHECK: &str = "awake";

#[derive(Debug)]
pub struct TaintEvictionController {
    client: Client,
    informers: SharedInformers,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    suspend: SuspendDetector,
    /// Pending evictions by pod key.
    pending: HashMap<String, PendingEviction>,
}

/// A pod whose toleration period is running.
#[derive(Clone, Debug)]
struct PendingEviction {
    uid: String,
    since: Instant,
}

impl TaintEvictionController {
    /// Creates the controller. It evicts pods of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        let state = State { suspend: SuspendDetector::new(CHECK_INTERVAL), pending: HashMap::new() };
        Self { client, informers, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The `NoExecute` taints of a node.
    fn no_execute_taints(&self, node: &str) -> Vec<Taint> {
        let node = self.informers.get(&Kind::NODE, "", node);
        node.map(|node| no_execute_taints(node.node())).unwrap_or_default()
    }

    /// Returns the start of the pod's toleration period, or `None` while the Nodes are not watched.
    fn since(&self, key: &str, pod: &Object, queue: &WorkQueue) -> Option<Instant> {
        let seen = self.informers.synced_since(&Kind::NODE)?;
        let mut state = self.state();
        if state.pending.is_empty() {
            queue.add(SUSPEND_CHECK);
        }
        let fresh = || PendingEviction { uid: pod.uid.clone(), since: Instant::now() };
        let pending = state.pending.entry(key.to_owned()).or_insert_with(fresh);
        if pending.uid != pod.uid {
            *pending = fresh();
        }
        let since = pending.since.max(seen);
        Some(state.suspend.observed_since(since))
    }

    /// Records a suspend check. Returns whether no eviction is pending, and the check interval.
    fn tick(&self) -> (bool, Duration) {
        let mut state = self.state();
        state.suspend.tick(Instant::now());
        (state.pending.is_empty(), state.suspend.interval())
    }

    fn forget(&self, key: &str) -> Option<PendingEviction> {
        self.state().pending.remove(key)
    }

    /// Cancels a pending eviction.
    async fn cancel(&self, key: &str, pod: &Object) -> Action {
        if self.forget(key).is_some() {
            self.record_event(pod, &format!("Cancelling deletion of Pod {key}")).await;
        }
        Action::AwaitChange
    }

    async fn evict(&self, key: &str, pod: &Object, found: &Pod) -> Result<Action, Error> {
        if let Some(condition) = plan::disruption_target(found, Timestamp::now()) {
            let patch = json!({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}});
            self.client.patch_subresource(&Kind::POD, &pod.namespace, &pod.name, "status", patch).await?;
        }
        let how = DeleteOptions { uid: Some(&pod.uid), ..DeleteOptions::default() };
        self.client.delete(&Kind::POD, &pod.namespace, &pod.name, &how).await?;
        self.forget(key);
        tracing::info!(
            pod = key,
            node = &*pod.pod().node,
            "evicting pod: it does not tolerate a NoExecute taint of its node"
        );
        self.record_event(pod, &format!("Marking for deletion Pod {key}")).await;
        Ok(Action::AwaitChange)
    }

    async fn record_event(&self, pod: &Object, message: &str) {
        let event = NewEvent {
            kind: &Kind::POD,
            namespace: &pod.namespace,
            name: &pod.name,
            uid: &pod.uid,
            is_warning: false,
            reason: "TaintManagerEviction",
            message,
            component: NAME,
        };
        record_event(&self.client, event).await;
    }

    async fn reconcile_pod(&self, key: &str, queue: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let pod = self.informers.get(&Kind::POD, namespace, name).filter(|pod| !pod.is_terminating);
        let Some(pod) = pod else {
            self.forget(key);
            return Ok(Action::AwaitChange);
        };
        let taints = self.no_execute_taints(&pod.pod().node);
        if taints.is_empty() {
            return Ok(self.cancel(key, &pod).await);
        }
        let found = self.client.find_as::<Pod>(&Kind::POD, namespace, name).await?;
        let stays = |found: &Pod| *found.metadata.uid == *pod.uid && !found.metadata.is_terminating();
        let Some(found) = found.filter(stays) else { return Ok(Action::AwaitChange) };
        let tolerated = match plan::toleration_period(&found, &taints) {
            TolerationPeriod::Forever => return Ok(self.cancel(key, &pod).await),
            TolerationPeriod::Limited(tolerated) => tolerated,
        };
        let Some(since) = self.since(key, &pod, queue) else {
            return Ok(Action::RequeueAfter(CHECK_INTERVAL));
        };
        let left = (since + tolerated).saturating_duration_since(Instant::now());
        if left.is_zero() { self.evict(key, &pod, &found).await } else { Ok(Action::RequeueAfter(left)) }
    }
}

#[async_trait]
impl Controller for TaintEvictionController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::POD) {
            let Some(pod) = change.object().filter(|pod| !pod.pod().node.is_empty()) else { return };
            let key = pod.key();
            let is_pending = self.state().pending.contains_key(&key);
            if is_pending || !self.no_execute_taints(&pod.pod().node).is_empty() {
                queue.add(&key);
            }
        } else if change.kind.is(&Kind::NODE) {
            let of = |node: Option<&Arc<Object>>| {
                node.map(|node| no_execute_taints(node.node())).unwrap_or_default()
            };
            let Some(node) = change.object() else { return };
            if of(change.before.as_ref()) != of(change.now.as_ref()) {
                self.informers.pods_on(&node.name).iter().for_each(|pod| queue.add(&pod.key()));
            }
        }
    }

    async fn reconcile(&self, key: &str, queue: &WorkQueue) -> Result<Action, Error> {
        let (is_idle, pulse) = self.tick();
        match key {
            SUSPEND_CHECK if is_idle => Ok(Action::AwaitChange),
            SUSPEND_CHECK => Ok(Action::RequeueAfter(pulse)),
            _ => self.reconcile_pod(key, queue).await,
        }
    }
}
