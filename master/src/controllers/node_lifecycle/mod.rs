//! The node lifecycle controller: marks unreachable nodes, sets taints from conditions, and evicts pods zone by
//! zone at a limited rate. `docs/node-lifecycle.md` describes it.
//!
//! A heartbeat is a renewed lease or a new heartbeat time in the Node. A node is checked when its grace period
//! would end. Time during which the controller could not observe heartbeats does not count.

mod conditions;
mod heartbeats;
mod key;
mod taints;
mod zones;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use client::{Client, Error, Kind};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::time::Instant;

pub use self::conditions::Ready;
pub use self::taints::no_execute_taints;

use self::heartbeats::Heartbeats;
use self::key::Key;
use self::taints::{EvictionTurn, Plan};
use self::zones::{NodeHealth, ZoneChange, ZoneStates};
use super::event_recorder::{NewEvent, record_event};
use super::informers::{Change, SharedInformers};
use super::object::Object;
use super::rate_limited_queue::Action;
use super::suspend::{CHECK_INTERVAL, SuspendDetector};
use super::work_queue::{Controller, WorkQueue};
use crate::objects::{PartialObject, Pod};
use crate::options::NodeLifecycle;

/// The controller's stock name in `--controllers`.
pub const NAME: &str = "node-lifecycle-controller";
/// The event source component, as in a stock cluster.
const COMPONENT: &str = "node-controller";
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Grace period of a node that has not reported yet, the default of the stock `--node-startup-grace-period`.
const STARTUP_GRACE: Duration = Duration::from_secs(60);
/// Number of concurrent reconciliations, the stock default.
const WORKERS: usize = 8;

#[derive(Debug)]
pub struct NodeLifecycleController {
    client: Client,
    reader: Client,
    informers: SharedInformers,
    grace: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    heartbeats: Heartbeats,
    suspend: SuspendDetector,
    zones: ZoneStates,
}

impl NodeLifecycleController {
    /// Creates the controller. It manages the Nodes of the given informers. `reader` may read leases.
    pub fn new(client: Client, reader: Client, informers: SharedInformers, wanted: &NodeLifecycle) -> Self {
        let pulse = CHECK_INTERVAL.min(wanted.grace / 10);
        let zones = ZoneStates::new(wanted.eviction_pace, wanted.grace);
        let state = State { heartbeats: Heartbeats::default(), suspend: SuspendDetector::new(pulse), zones };
        Self { client, reader, informers, grace: wanted.grace, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since which every heartbeat has been observed, or `None` while watches are disconnected.
    fn observing_since(&self) -> Option<Instant> {
        let (nodes, leases) =
            (self.informers.synced_since(&Kind::NODE)?, self.informers.synced_since(&Kind::LEASE)?);
        Some(self.state().suspend.observed_since(nodes.max(leases)))
    }

    fn on_lease_change(&self, change: &Change) {
        if let Some(lease) = change.now.as_ref().filter(|lease| lease.namespace == LEASE_NAMESPACE) {
            self.state().heartbeats.renew(&lease.name, Instant::now());
        }
    }

    fn on_node_change(&self, change: &Change, queue: &WorkQueue) {
        let now = Instant::now();
        let Some(node) = &change.now else {
            let Some(gone) = &change.before else { return };
            let mut state = self.state();
            state.heartbeats.forget(&gone.name);
            let zone = state.zones.zone_of(&gone.name).map(str::to_owned);
            let change_of_zone = state.zones.remove(&gone.name);
            drop(state);
            self.on_zone_change(change_of_zone, [zone, None], queue);
            return;
        };
        let (before, fields) = (change.before.as_ref().map(|before| before.node()), node.node());
        let (was, is) = (before.map(Ready::of), Ready::of(fields));
        let mut state = self.state();
        state.heartbeats.track(&node.name, now);
        if before.is_some_and(|before| conditions::heartbeat(before) != conditions::heartbeat(fields)) {
            state.heartbeats.record(&node.name, now);
        }
        let place = NodeHealth::of(node, is == Ready::Yes);
        let zone = place.zone.clone();
        let left = state.zones.zone_of(&node.name).filter(|left| *left != zone).map(str::to_owned);
        let change_of_zone = state.zones.put(&node.name, place);
        // Another master may have tainted the node, possibly before this process started.
        match before {
            Some(before) if !taints::has_eviction_taint(before) && taints::has_eviction_taint(fields) => {
                state.zones.evicted(&node.name, now);
            }
            Some(_) => {}
            None => {
                let age =
                    taints::eviction_taint_since(fields).map(|since| Timestamp::now().duration_since(since));
                // A wrong clock must not move the time into the future.
                let age = age.map(|age| age.max(SignedDuration::ZERO).unsigned_abs());
                if let Some(at) = age.and_then(|age| now.checked_sub(age)) {
                    state.zones.evicted(&node.name, at);
                }
            }
        }
        drop(state);
        self.on_zone_change(change_of_zone, [left, Some(zone)], queue);
        queue.add(&Key::Node(&node.name).write());
        if before.is_none() {
            queue.add(&Key::SuspendCheck.write());
        }
        if is == Ready::Unknown && was != Some(is) {
            let pods = self.informers.pods_on(&node.name);
            pods.iter().for_each(|pod| queue.add(&Key::Pod(&pod.namespace, &pod.name).write()));
        }
    }

    /// Handles a ready pod that appears on an unreachable node.
    fn on_pod_change(&self, change: &Change, queue: &WorkQueue) {
        let Some(pod) = &change.now else { return };
        let fields = pod.pod();
        let came = change.before.as_ref().is_none_or(|before| before.pod().node != fields.node);
        if came && fields.is_ready && self.ready(&fields.node) == Some(Ready::Unknown) {
            queue.add(&Key::Pod(&pod.namespace, &pod.name).write());
        }
    }

    fn on_zone_change(&self, change_of_zone: ZoneChange, zones: [Option<String>; 2], queue: &WorkQueue) {
        match change_of_zone {
            ZoneChange::None => {}
            ZoneChange::EvictionRate => {
                zones.iter().flatten().for_each(|zone| queue.add(&Key::Zone(zone).write()))
            }
            ZoneChange::AllUnhealthy | ZoneChange::Recovered => {
                if change_of_zone == ZoneChange::AllUnhealthy {
                    tracing::info!("no node is ready: stopping evictions until one is");
                } else {
                    tracing::info!("a node is ready again: restarting the grace period of all other nodes");
                    self.state().suspend.reset(Instant::now());
                }
                for node in self.informers.list(&Kind::NODE, "") {
                    queue.add(&Key::Node(&node.name).write());
                }
            }
        }
    }

    fn ready(&self, node: &str) -> Option<Ready> {
        self.informers.get(&Kind::NODE, "", node).map(|node| Ready::of(node.node()))
    }

    /// Checks whether this server is ready. A master without its store receives no heartbeats, but still serves its
    /// cache.
    async fn check_suspend(&self) -> Action {
        if let Err(error) = self.reader.check_ready().await {
            tracing::debug!(%error, "the API server is not ready; pausing the grace periods");
            self.state().suspend.reset(Instant::now());
        }
        let has_nodes = !self.informers.list(&Kind::NODE, "").is_empty();
        let pulse = self.state().suspend.interval();
        if has_nodes { Action::RequeueAfter(pulse) } else { Action::AwaitChange }
    }

    async fn reconcile_node(&self, name: &str, queue: &WorkQueue) -> Result<Action, Error> {
        let Some(seen) = self.informers.get(&Kind::NODE, "", name) else { return Ok(Action::AwaitChange) };
        let left = self.remaining_grace(&seen);
        self.update_taints(&seen, left, queue).await?;
        match left {
            Some(left) => Ok(Action::RequeueAfter(left)),
            None if conditions::unknown_conditions(seen.node(), None, Timestamp::UNIX_EPOCH).is_empty() => {
                Ok(Action::AwaitChange)
            }
            None => self.mark_unknown(&seen).await,
        }
    }

    /// Returns the rest of a node's grace period, or the check interval while heartbeats are not observed. Returns
    /// `None` if the node is unreachable.
    fn remaining_grace(&self, seen: &Object) -> Option<Duration> {
        let Some(since) = self.observing_since() else { return Some(CHECK_INTERVAL) };
        let grace = if Ready::of(seen.node()) == Ready::NeverReported {
            STARTUP_GRACE.max(self.grace)
        } else {
            self.grace
        };
        self.state().heartbeats.remaining_grace(&seen.name, since, grace, Instant::now())
    }

    /// Sets the conditions of an unreachable node to unknown, after the API server has confirmed it.
    async fn mark_unknown(&self, seen: &Object) -> Result<Action, Error> {
        let asked = self.confirm_silent(seen).await;
        if asked.is_err() {
            // Nodes may have been unable to reach the API server, too.
            self.state().suspend.reset(Instant::now());
        }
        let Some(node) = asked? else {
            self.state().heartbeats.renew(&seen.name, Instant::now());
            return Ok(Action::RequeueAfter(self.grace));
        };
        let was = Ready::of(node.node());
        let conditions =
            conditions::unknown_conditions(node.node(), node.creation_timestamp, Timestamp::now());
        if conditions.is_empty() {
            return Ok(Action::AwaitChange);
        }
        let patch = json!({
            "metadata": {"uid": node.uid, "resourceVersion": node.resource_version},
            "status": {"conditions": conditions},
        });
        let written = self.client.patch_subresource(&Kind::NODE, "", &node.name, "status", patch).await;
        if written.as_ref().is_err_and(|error| !error.is_conflict()) {
            self.state().suspend.reset(Instant::now());
        }
        written?;
        let (name, grace) = (&seen.name, self.grace.as_secs());
        tracing::warn!(node = name, grace, "node is unreachable: no heartbeat within the grace period");
        if was == Ready::Yes {
            let message = format!("Node {name} status is now: NodeNotReady");
            self.record_event(&Kind::NODE, "", name, &node.uid, (false, "NodeNotReady", &message)).await;
        }
        Ok(Action::AwaitChange)
    }

    /// Returns the live Node of a silent node, or `None` if the API server knows a newer heartbeat.
    async fn confirm_silent(&self, seen: &Object) -> Result<Option<Object>, Error> {
        let name = &seen.name;
        let lease: Option<PartialObject> =
            self.reader.find_by_list(&Kind::LEASE, LEASE_NAMESPACE, name).await?;
        let lease = lease.map(|lease| String::from(lease.metadata.resource_version));
        let heard = self
            .informers
            .get(&Kind::LEASE, LEASE_NAMESPACE, name)
            .map(|lease| lease.resource_version.clone());
        let node = Object::find(&self.client, &Kind::NODE, "", name).await?;
        let is_silent = |node: &Object| {
            lease == heard && conditions::heartbeat(node.node()) == conditions::heartbeat(seen.node())
        };
        Ok(node.filter(is_silent))
    }

    /// Writes the taints that the node must have now, and queues the node for eviction taints.
    async fn update_taints(
        &self,
        seen: &Object,
        left: Option<Duration>,
        queue: &WorkQueue,
    ) -> Result<(), Error> {
        let (turn, plan, zone) = self.plan_taints(seen, left);
        if let Some(zone) = zone {
            queue.add(&Key::Zone(&zone).write());
        }
        if !plan.is_done() {
            self.write_taints(&seen.name, turn).await?;
        }
        Ok(())
    }

    /// Returns the taint changes of a node, and the zone in whose eviction queue the node waits.
    fn plan_taints(&self, seen: &Object, left: Option<Duration>) -> (EvictionTurn, Plan, Option<String>) {
        let zones = &mut self.state().zones;
        let turn = if zones.evictions_stopped() { EvictionTurn::Disabled } else { EvictionTurn::Wait };
        let plan = taints::plan(seen.node(), turn);
        let waits = plan.waits && !is_within_grace(seen, left);
        if waits {
            zones.enqueue(&seen.name, Instant::now());
        } else {
            zones.dequeue(&seen.name);
        }
        let zone = zones.zone_of(&seen.name).filter(|_| waits).map(str::to_owned);
        (turn, plan, zone)
    }

    /// Writes the taints of the live Node. Returns whether it then has an eviction taint.
    async fn write_taints(&self, name: &str, turn: EvictionTurn) -> Result<bool, Error> {
        let Some(node) = Object::find(&self.client, &Kind::NODE, "", name).await? else { return Ok(false) };
        let plan = taints::plan(node.node(), turn);
        let mut ends = taints::has_eviction_taint(node.node());
        if !plan.is_done() {
            let taints = taints::planned_taints(node.node(), &plan, Timestamp::now());
            let patch = json!({
                "metadata": {"uid": node.uid, "resourceVersion": node.resource_version}, "spec": {"taints": taints},
            });
            let written = self.client.patch(&Kind::NODE, "", name, patch).await?;
            ends = taints::has_eviction_taint(Object::of(&self.client, &Kind::NODE, &written)?.node());
            tracing::info!(node = name, add = ?plan.add, remove = ?plan.remove, "updated the taints of a node from its conditions");
        }
        Ok(ends)
    }

    async fn reconcile_zone(&self, zone: &str, queue: &WorkQueue) -> Result<Action, Error> {
        loop {
            let next = self.state().zones.next(zone, Instant::now());
            let node = match next {
                zones::NextEviction::Now(node) => node,
                zones::NextEviction::In(pause) => return Ok(Action::RequeueAfter(pause)),
                zones::NextEviction::Never => return Ok(Action::AwaitChange),
            };
            let seen = self.informers.get(&Kind::NODE, "", &node);
            if seen.is_some_and(|seen| is_within_grace(&seen, self.remaining_grace(&seen))) {
                // The observation was interrupted while the node waited.
                self.state().zones.dequeue(&node);
                queue.add(&Key::Node(&node).write());
                continue;
            }
            let ends = self.write_taints(&node, EvictionTurn::Now).await?;
            let mut state = self.state();
            if ends {
                state.zones.evicted(&node, Instant::now());
            } else {
                state.zones.dequeue(&node);
            }
        }
    }

    /// Sets the Ready condition of a pod on an unreachable node to false.
    async fn reconcile_pod(&self, namespace: &str, name: &str) -> Result<Action, Error> {
        let Some(pod) = self.client.find_as::<Pod>(&Kind::POD, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        if self.ready(&pod.spec.node_name) != Some(Ready::Unknown) {
            return Ok(Action::AwaitChange);
        }
        let Some(condition) = conditions::not_ready_condition(&pod.status.conditions, Timestamp::now())
        else {
            return Ok(Action::AwaitChange);
        };
        let (uid, resource_version) = (pod.metadata.uid, pod.metadata.resource_version);
        let patch = json!({
            "metadata": {"uid": uid, "resourceVersion": resource_version}, "status": {"conditions": [condition]},
        });
        self.client.patch_subresource(&Kind::POD, namespace, name, "status", patch).await?;
        self.record_event(&Kind::POD, namespace, name, &uid, (true, "NodeNotReady", "Node is not ready"))
            .await;
        Ok(Action::AwaitChange)
    }

    async fn record_event(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        (is_warning, reason, message): (bool, &str, &str),
    ) {
        let event =
            NewEvent { kind, namespace, name, uid, is_warning, reason, message, component: COMPONENT };
        record_event(&self.client, event).await;
    }
}

#[async_trait]
impl Controller for NodeLifecycleController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::LEASE) {
            self.on_lease_change(change);
        } else if change.kind.is(&Kind::NODE) {
            self.on_node_change(change, queue);
        } else if change.kind.is(&Kind::POD) {
            self.on_pod_change(change, queue);
        }
    }

    async fn reconcile(&self, key: &str, queue: &WorkQueue) -> Result<Action, Error> {
        self.state().suspend.tick(Instant::now());
        match Key::read(key) {
            Some(Key::SuspendCheck) => Ok(self.check_suspend().await),
            Some(Key::Node(name)) => self.reconcile_node(name, queue).await,
            Some(Key::Zone(zone)) => self.reconcile_zone(zone, queue).await,
            Some(Key::Pod(namespace, name)) => self.reconcile_pod(namespace, name).await,
            None => Ok(Action::AwaitChange),
        }
    }
}

/// Whether an unreachable node has grace left, for instance after an interruption. Such a node does not wait for
/// eviction.
fn is_within_grace(seen: &Object, left: Option<Duration>) -> bool {
    left.is_some() && Ready::of(seen.node()) == Ready::Unknown
}

#[cfg(test)]
mod tests;
