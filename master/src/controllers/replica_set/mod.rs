//! The ReplicaSet and ReplicationController controllers: they keep the desired number of pods.
//!
//! Both kinds have the same semantics. One controller serves each kind, with its [`Variant`].

pub mod plan;
pub mod status;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use client::{Client, Error, Json, Kind};
use jiff::Timestamp;
use serde_json::Value;

use self::plan::Step;
use self::status::Pods;
use super::informers::{Change, SharedInformers};
use super::object::{Object, unreadable};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use super::workloads::expectations::CONFIRM_AFTER;
use super::workloads::pod_control::{PodControl, PodOwner};
use super::workloads::pod_writes::{Failure, pod_of};
use super::workloads::replica::Replica;
use crate::objects::{ReplicaSet, StringMap};

/// Number of concurrent reconciliations, the stock default.
const WORKERS: usize = 5;

/// The differences between the two kinds.
#[derive(Debug)]
pub struct Variant {
    /// The controller's stock name in `--controllers`.
    pub name: &'static str,
    /// The service account of the controller. It is also the source of its events.
    pub account: &'static str,
    kind: Kind,
    /// Whether the status has `terminatingReplicas`.
    reports_terminating: bool,
    read: fn(&Json) -> Result<ReplicaSet, serde_json::Error>,
}

pub static REPLICA_SET: Variant = Variant {
    name: "replicaset-controller",
    account: "replicaset-controller",
    kind: Kind::REPLICA_SET,
    reports_terminating: true,
    read: |set| serde::Deserialize::deserialize(set),
};

pub static REPLICATION_CONTROLLER: Variant = Variant {
    name: "replicationcontroller-controller",
    account: "replication-controller",
    kind: Kind::REPLICATION_CONTROLLER,
    reports_terminating: false,
    read: |set| <ReplicaSet<StringMap> as serde::Deserialize>::deserialize(set).map(ReplicaSet::from),
};

#[derive(Debug)]
pub struct ReplicaSetController {
    variant: &'static Variant,
    client: Client,
    informers: SharedInformers,
    pods: PodControl,
}

/// A ReplicaSet that was read from the API server, not from the cache.
struct Live<'a> {
    namespace: &'a str,
    set: &'a ReplicaSet,
    /// The whole object. Its template is copied into pods.
    json: &'a Json,
}

impl Live<'_> {
    fn owner(&self) -> PodOwner<'_> {
        PodOwner::of(self.namespace, &self.set.metadata, &self.set.spec.selector)
    }
}

impl ReplicaSetController {
    /// Creates the controller. It reads pods of the given informers.
    pub fn new(variant: &'static Variant, client: Client, informers: SharedInformers) -> Self {
        let pods = PodControl::new(client.clone(), informers.clone(), variant.kind.clone(), variant.account);
        Self { variant, client, informers, pods }
    }

    /// Returns the active pods of all ReplicaSets with the same owner, or of this one if it has no owner.
    fn related<'p>(&self, live: &Live<'_>, own: &[Replica<'p>], pods: &'p [Arc<Object>]) -> Vec<Replica<'p>> {
        let Some(owner) = live.set.metadata.controller() else { return own.to_vec() };
        let is_sibling = |set: &Arc<Object>| set.controller().is_some_and(|above| above.uid == owner.uid);
        let sets = self.informers.list(&self.variant.kind, live.namespace);
        let siblings: HashSet<&str> =
            sets.iter().filter(|set| is_sibling(set)).map(|set| &*set.uid).collect();
        let pods = pods.iter().map(|pod| Replica::of(pod));
        pods.filter(|pod| pod.controller.is_some_and(|owner| siblings.contains(&*owner.uid))).collect()
    }

    async fn reconcile_live(&self, live: &Live<'_>, pods: &[Arc<Object>]) -> Result<Action, Error> {
        let owner = live.owner();
        let own = self.pods.claim(&owner, pods).await?;
        let own: Vec<Replica<'_>> = own.into_iter().map(|pod| Replica::of(pod)).collect();
        let active: Vec<Replica<'_>> = own.iter().copied().filter(Replica::is_active).collect();
        let terminating = own.iter().filter(|pod| pod.is_terminating && !pod.is_terminal()).count();
        let failure = if live.set.metadata.is_terminating() {
            None
        } else {
            let related = self.related(live, &own, pods);
            match plan::plan(live.set.replicas(), &active, &related, Timestamp::now()) {
                Step::Nothing => None,
                Step::Create(count) => self.pods.create(&owner, count, |_| pod_of(template(live.json))).await,
                Step::Delete(to_delete) => self.pods.delete(&owner, &to_delete).await,
            }
        };
        let pods =
            Pods { active: &active, terminating: self.variant.reports_terminating.then_some(terminating) };
        self.update_status(live, pods, failure.as_ref()).await?;
        if failure.is_some() {
            return Ok(Action::Retry);
        }
        Ok(status::next_availability(live.set, &active, Timestamp::now())
            .map_or(Action::AwaitChange, Action::RequeueAfter))
    }

    async fn update_status(
        &self,
        live: &Live<'_>,
        pods: Pods<'_>,
        failure: Option<&Failure>,
    ) -> Result<(), Error> {
        let status = status::status(live.set, pods, failure, Timestamp::now());
        if status != live.set.status {
            let mut object = live.json.clone();
            object.insert("status".to_owned(), status.to_json());
            self.client.update(&self.variant.kind, "status", object).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Controller for ReplicaSetController {
    fn name(&self) -> &'static str {
        self.variant.name
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::POD) {
            self.pods.on_pod_change(change, queue, |set| set.replica_set().map(|set| &set.spec.selector));
        } else if change.kind.is(&self.variant.kind) {
            match (&change.before, &change.now) {
                (Some(gone), None) => self.pods.forget(&gone.uid),
                (_, Some(now)) => queue.add(&now.key()),
                (None, None) => {}
            }
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(json) = self.client.find(&self.variant.kind, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        let set = (self.variant.read)(&json).map_err(|source| unreadable(&self.client, source))?;
        let live = Live { namespace, set: &set, json: &json };
        // If the informers do not show the controller's own writes yet, it would repeat them, and the status would lack
        // pods.
        if !self.pods.has_seen_own_writes(namespace, &set.metadata.uid).await? {
            return Ok(Action::RequeueAfter(CONFIRM_AFTER));
        }
        let pods = self.informers.list(&Kind::POD, namespace);
        self.reconcile_live(&live, &pods).await
    }
}

/// Returns the pod template of the object.
fn template(json: &Json) -> Option<&Json> {
    json.get("spec")?.get("template").and_then(Value::as_object)
}
