//! The ReplicaSet and ReplicationController controllers: they keep the desired number of pods.
//!
//! Both kinds have the same semantics. One controller serves each kind, with its [`Variant`].

pub mod plan;
mod pods;
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
use self::status::{Failure, Pods};
use super::informers::{Change, SharedInformers};
use super::object::{Object, unreadable};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use super::workloads::claim::{Candidate, Claim, Owner, adoption, claim, controller_reference, release};
use super::workloads::expectations::CONFIRM_AFTER;
use super::workloads::own_writes::OwnWrites;
use super::workloads::replica::Replica;
use super::workloads::requests::{may_adopt, patch_owners};
use crate::objects::{OwnerReference, ReplicaSet, StringMap};

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
    writes: OwnWrites,
}

/// A ReplicaSet as the API server has it.
struct Live<'a> {
    namespace: &'a str,
    set: &'a ReplicaSet,
    /// The whole object. Its template is copied into pods.
    json: &'a Json,
}

impl ReplicaSetController {
    /// Creates the controller. It reads pods of the given informers.
    pub fn new(variant: &'static Variant, client: Client, informers: SharedInformers) -> Self {
        Self { variant, client, informers, writes: OwnWrites::new(Kind::POD) }
    }

    /// Whether an owner reference names an object of this controller's kind.
    fn is_own_kind(&self, owner: &OwnerReference) -> bool {
        *owner.kind == *self.variant.kind.kind && owner.group() == self.variant.kind.group
    }

    fn on_pod_change(&self, change: &Change, queue: &WorkQueue) {
        let owner_of = |pod: &Arc<Object>| pod.controller().filter(|owner| self.is_own_kind(owner)).cloned();
        let (before, now) = (change.before.as_ref(), change.now.as_ref());
        if let (Some(before), Some(now)) = (before, now)
            && is_same(before, now)
        {
            return;
        }
        let Some(pod) = change.object() else { return };
        let owners: HashSet<OwnerReference> = before.into_iter().chain(now).filter_map(owner_of).collect();
        for owner in owners {
            self.writes.observe(&owner.uid, &pod.name);
            queue.add(&format!("{}/{}", pod.namespace, owner.name));
        }
        // An orphan may be adopted.
        if let Some(now) = now.filter(|now| now.controller().is_none() && !now.is_terminating) {
            for set in self.informers.list(&self.variant.kind, &now.namespace) {
                if set.replica_set().is_some_and(|set| set.spec.selector.matches(&now.labels)) {
                    queue.add(&set.key());
                }
            }
        }
    }

    /// Returns the pods of the ReplicaSet. Adopts matching orphans, and releases pods that no longer match.
    async fn claim_pods<'p>(
        &self,
        live: &Live<'_>,
        pods: &'p [Arc<Object>],
    ) -> Result<Vec<Replica<'p>>, Error> {
        let (metadata, kind) = (&live.set.metadata, &self.variant.kind);
        let owner = Owner {
            uid: &metadata.uid,
            is_terminating: metadata.is_terminating(),
            selector: &live.set.spec.selector,
        };
        let (mut own, mut can_adopt) = (Vec::new(), None);
        for pod in pods.iter().map(|pod| Replica::of(pod)) {
            let candidate = Candidate {
                controller: pod.controller,
                labels: pod.labels,
                is_terminating: pod.is_terminating,
            };
            let patch = match claim(owner, candidate) {
                Claim::Keep => {
                    own.push(pod);
                    continue;
                }
                Claim::Adopt if pod.is_active() => {
                    let known = match can_adopt {
                        Some(known) => known,
                        None => {
                            may_adopt(&self.client, kind, live.namespace, &metadata.name, &metadata.uid)
                                .await?
                        }
                    };
                    can_adopt = Some(known);
                    if !known {
                        continue;
                    }
                    adoption(pod.uid, &controller_reference(kind, &metadata.name, &metadata.uid))
                }
                Claim::Release if pod.is_active() => release(pod.uid, &metadata.uid),
                Claim::Adopt | Claim::Release | Claim::Ignore => continue,
            };
            let is_adopted = pod.controller.is_none();
            let is_done = patch_owners(&self.client, &Kind::POD, live.namespace, pod.name, patch).await?;
            if is_done && is_adopted {
                own.push(pod);
            }
        }
        Ok(own)
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
        let own = self.claim_pods(live, pods).await?;
        let active: Vec<Replica<'_>> = own.iter().copied().filter(Replica::is_active).collect();
        let terminating = own.iter().filter(|pod| pod.is_terminating && !pod.is_terminal()).count();
        let failure = if live.set.metadata.is_terminating() {
            None
        } else {
            let related = self.related(live, &own, pods);
            match plan::plan(live.set.replicas(), &active, &related, Timestamp::now()) {
                Step::Nothing => None,
                Step::Create(count) => self.create_pods(live, count).await,
                Step::Delete(doomed) => self.delete_pods(live, &doomed).await,
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

/// Whether a change of a pod concerns no replica.
fn is_same(before: &Object, now: &Object) -> bool {
    before.is_terminating == now.is_terminating
        && before.fields == now.fields
        && before.labels == now.labels
        && before.owners == now.owners
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
            self.on_pod_change(change, queue);
        } else if change.kind.is(&self.variant.kind) {
            match (&change.before, &change.now) {
                (Some(gone), None) => self.writes.forget(&gone.uid),
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
        // Without its own writes, the controller would repeat them, and the status would miss pods.
        let uid = &set.metadata.uid;
        if !self.writes.are_seen(&self.client, &self.informers, namespace, uid).await? {
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
