//! The DaemonSet controller: runs one pod on each eligible node, and rolls out pod templates node by node.
//!
//! The controller chooses the node of each pod, and the scheduler binds the pod to it.

pub mod backoff;
pub mod eligibility;
pub mod plan;
pub mod pods;
mod rolling;
pub mod status;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use client::{Client, Error, Json, Kind};
use jiff::Timestamp;
use serde_json::{Map, Value};

use self::backoff::{BackoffKey, FailedPodBackoff};
use self::eligibility::{Eligibility, Placement};
use self::plan::{Ended, Input, Plan};
use self::pods::{DaemonNode, DaemonPod, NewPods, TEMPLATE_GENERATION_ANNOTATION};
use super::informers::{Change, SharedInformers};
use super::object::{Object, unreadable};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use super::workloads::expectations::CONFIRM_AFTER;
use super::workloads::history::{POD_REVISION_LABEL, Revision};
use super::workloads::pod_control::{PodControl, PodOwner};
use super::workloads::revisions::{RevisionOwner, Revisions};
use crate::objects::daemon_set::DaemonSetStatus;
use crate::objects::{DaemonSet, LabelSelector};

/// The controller's stock name in `--controllers`. It is also the source of its events.
pub const NAME: &str = "daemonset-controller";
/// The service account of the controller.
pub const ACCOUNT: &str = "daemon-set-controller";
/// Number of concurrent reconciliations, the stock default of `--concurrent-daemonset-syncs`.
const WORKERS: usize = 2;
/// Pause while nodes or pods are not watched. A plan from an old cache would create or delete too many pods.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct DaemonSetController {
    client: Client,
    informers: SharedInformers,
    pods: PodControl,
    revisions: Revisions,
    backoff: Mutex<FailedPodBackoff>,
}

/// A DaemonSet that was read from the API server, not from the cache.
struct Live<'a> {
    namespace: &'a str,
    set: &'a DaemonSet,
    /// The whole object. Its template is copied into pods and revisions.
    json: &'a Json,
}

impl Live<'_> {
    fn owner(&self) -> PodOwner<'_> {
        PodOwner::of(self.namespace, &self.set.metadata, &self.set.spec.selector)
    }

    fn template(&self) -> &Value {
        self.json.get("spec").and_then(|spec| spec.get("template")).unwrap_or(&Value::Null)
    }

    fn backoff_key(&self, node: &str) -> BackoffKey {
        let generation = self.set.status.observed_generation;
        BackoffKey { uid: self.set.metadata.uid.clone(), generation, node: node.into() }
    }
}

impl DaemonSetController {
    /// Creates the controller. It reads nodes, pods and ControllerRevisions of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self {
            pods: PodControl::new(client.clone(), informers.clone(), Kind::DAEMON_SET, NAME),
            revisions: Revisions::new(
                client.clone(),
                informers.clone(),
                Kind::DAEMON_SET,
                POD_REVISION_LABEL,
            ),
            client,
            informers,
            backoff: Mutex::default(),
        }
    }

    fn backoff(&self) -> MutexGuard<'_, FailedPodBackoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues the DaemonSets for which the eligibility of a changed node differs.
    fn on_node_change(&self, change: &Change, queue: &WorkQueue) {
        let (before, now) = (change.before.as_deref(), change.now.as_deref());
        for set in self.informers.list(&Kind::DAEMON_SET, "") {
            let Some(fields) = set.daemon_set() else { continue };
            let on = |node: Option<&Object>| node.map_or(Eligibility::Stop, |node| fields.placement.on(node));
            if on(before) != on(now) {
                queue.add(&set.key());
            }
        }
    }

    async fn reconcile_live(&self, live: &Live<'_>) -> Result<Action, Error> {
        let (set, metadata) = (live.set, &live.set.metadata);
        let owner = live.owner();
        if set.spec.selector == LabelSelector::default() {
            let text = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.pods.record(&owner, true, "SelectingAll", text).await;
            return Ok(Action::AwaitChange);
        }
        // The garbage collector deletes or orphans the pods and revisions of a DaemonSet that is being deleted.
        if metadata.is_terminating() {
            return Ok(Action::AwaitChange);
        }
        let is_watched = |kind: &Kind| self.informers.synced_since(kind).is_some();
        if !is_watched(&Kind::NODE) || !is_watched(&Kind::POD) {
            return Ok(Action::RequeueAfter(WATCH_PAUSE));
        }
        if !self.pods.has_seen_own_writes(live.namespace, &metadata.uid).await?
            || !self.revisions.has_seen_own_writes(live.namespace, &metadata.uid).await?
        {
            return Ok(Action::RequeueAfter(CONFIRM_AFTER));
        }
        let history = RevisionOwner {
            metadata,
            selector: &set.spec.selector,
            template: live.template(),
            collisions: set.status.collision_count.unwrap_or(0),
        };
        let Some(revisions) = self.revisions.claim(&history).await? else { return Ok(Action::AwaitChange) };
        let revisions: Vec<Revision<'_>> = revisions.iter().filter_map(|one| Revision::of(one)).collect();
        let Some(current) = self.revisions.record(&history, &revisions).await? else {
            let collision_count = Some(history.collisions + 1);
            self.update_status(live, &DaemonSetStatus { collision_count, ..set.status.clone() }).await?;
            return Ok(Action::Retry);
        };
        // A revision that a user created may have no hash. Then its name is used, as in the stock controller.
        let hash = if current.hash.is_empty() { &current.name } else { &current.hash };
        let cached = self.informers.list(&Kind::POD, live.namespace);
        let own = self.pods.claim(&owner, &cached).await?;
        let action = self.reconcile_pods(live, &own, hash).await?;
        self.truncate_history(live, &revisions, &own, &current.name).await?;
        Ok(action)
    }

    async fn reconcile_pods(
        &self,
        live: &Live<'_>,
        own: &[&Arc<Object>],
        hash: &str,
    ) -> Result<Action, Error> {
        let (owner, placement) = (live.owner(), Placement::of(&live.set.spec.template.spec));
        let nodes = self.informers.list(&Kind::NODE, "");
        let nodes: Vec<DaemonNode<'_>> = nodes
            .iter()
            .map(|node| DaemonNode { name: &node.name, eligibility: placement.on(node) })
            .collect();
        let pods: Vec<DaemonPod<'_>> = own.iter().filter_map(|pod| DaemonPod::of(pod)).collect();
        let backoff = |node: &str| self.backoff().remaining(&live.backoff_key(node), Instant::now());
        let input = Input {
            set: live.set,
            nodes: &nodes,
            pods: &pods,
            hash,
            backoff: &backoff,
            now: Timestamp::now(),
        };
        let plan = plan::plan(input);
        let is_done = self.apply(live, &owner, &plan, hash).await;
        self.update_status(live, &status::status(input)).await?;
        if !is_done {
            return Ok(Action::Retry);
        }
        let wait = [plan.wait, status::next_availability(input)].into_iter().flatten().min();
        Ok(wait.map_or(Action::AwaitChange, Action::RequeueAfter))
    }

    /// Carries out a plan. Returns false if a request failed.
    async fn apply(&self, live: &Live<'_>, owner: &PodOwner<'_>, plan: &Plan<'_>, hash: &str) -> bool {
        for ended in &plan.ended {
            self.record_ended(live, owner, ended).await;
        }
        let new = NewPods {
            template: live.template().as_object(),
            hash,
            generation: live.set.metadata.annotations.get(TEMPLATE_GENERATION_ANNOTATION),
        };
        let pod = |index: usize| plan.create.get(index).map_or(Value::Null, |node| new.on(node));
        let created = self.pods.create(owner, plan.create.len(), pod).await;
        let deleted = self.pods.delete(owner, &plan.delete).await;
        created.is_none() && deleted.is_none()
    }

    async fn record_ended(&self, live: &Live<'_>, owner: &PodOwner<'_>, ended: &Ended<'_>) {
        let (namespace, Ended { pod, node, has_failed }) = (live.namespace, ended);
        if *has_failed {
            self.backoff().record(live.backoff_key(node), Instant::now());
            let text =
                format!("Found failed daemon pod {namespace}/{pod} on node {node}, will try to kill it");
            self.pods.record(owner, true, "FailedDaemonPod", &text).await;
        } else {
            let text =
                format!("Found succeeded daemon pod {namespace}/{pod} on node {node}, will try to delete it");
            self.pods.record(owner, false, "SucceededDaemonPod", &text).await;
        }
    }

    /// Deletes old revisions above the limit, except the present one and those of pods.
    async fn truncate_history(
        &self,
        live: &Live<'_>,
        revisions: &[Revision<'_>],
        pods: &[&Arc<Object>],
        current: &str,
    ) -> Result<(), Error> {
        let hashes: HashSet<&str> = pods.iter().map(|pod| pod.label(POD_REVISION_LABEL)).collect();
        let is_live = |one: &&Revision<'_>| {
            one.name == current
                || one.labels.get(POD_REVISION_LABEL).is_some_and(|hash| hashes.contains(hash))
        };
        let names: HashSet<&str> = revisions.iter().filter(is_live).map(|one| one.name).collect();
        let limit = live.set.spec.revision_history_limit;
        self.revisions.truncate(live.namespace, revisions, &names, limit).await
    }

    /// Updates the status if it has changed.
    ///
    /// # Errors
    /// If the DaemonSet was changed meanwhile. The caller retries.
    async fn update_status(&self, live: &Live<'_>, status: &DaemonSetStatus) -> Result<(), Error> {
        if *status != live.set.status {
            let mut object = live.json.clone();
            let fields = object.entry("status").or_insert_with(|| Value::Object(Map::new()));
            if let Some(fields) = fields.as_object_mut() {
                status.write_to(fields);
            }
            self.client.update(&Kind::DAEMON_SET, "status", object).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Controller for DaemonSetController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::POD) {
            self.pods.on_pod_change(change, queue, |set| set.daemon_set().map(|set| &set.selector));
        } else if change.kind.is(&Kind::NODE) {
            self.on_node_change(change, queue);
        } else if change.kind.is(&Kind::CONTROLLER_REVISION) {
            self.revisions.on_change(change, queue);
        } else if change.kind.is(&Kind::DAEMON_SET) {
            match (&change.before, &change.now) {
                (Some(gone), None) => {
                    self.pods.forget(&gone.uid);
                    self.revisions.forget(&gone.uid);
                    self.backoff().forget(&gone.uid);
                }
                (_, Some(now)) => queue.add(&now.key()),
                (None, None) => {}
            }
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(json) = self.client.find(&Kind::DAEMON_SET, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        let set: DaemonSet =
            serde::Deserialize::deserialize(&json).map_err(|source| unreadable(&self.client, source))?;
        self.reconcile_live(&Live { namespace, set: &set, json: &json }).await
    }
}
