//! The Deployment controller: rolls out pod templates by creating and scaling ReplicaSets.

pub mod plan;
pub mod revision;
mod rolling;
mod scaling;
mod status;
pub mod strategy;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use client::{Client, Error, Json, Kind};
use jiff::Timestamp;

use self::plan::Input;
use super::informers::{Change, SharedInformers};
use super::object::{Object, unreadable};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use super::workloads::claim::{Candidate, Claim, Owner, adoption, claim, controller_reference, release};
use super::workloads::expectations::{CONFIRM_AFTER, Expectations};
use super::workloads::requests::{may_adopt, patch_owners, seen};
use crate::objects::{Deployment, LabelSelector, OwnerReference, ReplicaSet};

/// The controller's stock name in `--controllers`. It is also the name of its service account, and the source of
/// its events.
pub const NAME: &str = "deployment-controller";
/// Number of concurrent reconciliations, the stock default.
const WORKERS: usize = 5;

#[derive(Debug)]
pub struct DeploymentController {
    client: Client,
    informers: SharedInformers,
    expectations: Mutex<Expectations>,
}

/// A Deployment as the API server has it.
struct Live<'a> {
    namespace: &'a str,
    deployment: &'a Deployment,
    /// The whole object. Its template is copied into ReplicaSets.
    json: &'a Json,
}

impl DeploymentController {
    /// Creates the controller. It reads ReplicaSets and pods of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers, expectations: Mutex::default() }
    }

    fn expectations(&self) -> MutexGuard<'_, Expectations> {
        self.expectations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_set_change(&self, change: &Change, queue: &WorkQueue) {
        let (before, now) = (change.before.as_ref(), change.now.as_ref());
        let Some(set) = change.object() else { return };
        let owner_of = |set: &Arc<Object>| set.controller().filter(|owner| is_deployment(owner)).cloned();
        let owners: HashSet<OwnerReference> = before.into_iter().chain(now).filter_map(owner_of).collect();
        for owner in owners {
            self.expectations().observe(&owner.uid, &set.name);
            queue.add(&format!("{}/{}", set.namespace, owner.name));
        }
        // An orphan may be adopted.
        if let Some(now) = now.filter(|now| now.controller().is_none() && !now.is_terminating) {
            for deployment in self.informers.list(&Kind::DEPLOYMENT, &now.namespace) {
                if deployment.deployment().is_some_and(|one| one.selector.matches(&now.labels)) {
                    queue.add(&deployment.key());
                }
            }
        }
    }

    /// Enqueues a Deployment with the strategy `Recreate` when one of its old pods ends.
    fn on_pod_change(&self, change: &Change, queue: &WorkQueue) {
        let has_ended = change.now.as_ref().is_none_or(|pod| pod.pod().is_terminal());
        let Some(pod) = change.object().filter(|_| has_ended) else { return };
        let owner = pod.controller().filter(|owner| *owner.kind == *Kind::REPLICA_SET.kind);
        let Some(set) =
            owner.and_then(|owner| self.informers.get(&Kind::REPLICA_SET, &pod.namespace, &owner.name))
        else {
            return;
        };
        let Some(owner) = set.controller().filter(|owner| is_deployment(owner)) else { return };
        let found = self.informers.get(&Kind::DEPLOYMENT, &pod.namespace, &owner.name);
        if let Some(deployment) = found.filter(|found| found.deployment().is_some_and(|one| one.is_recreated))
        {
            queue.add(&deployment.key());
        }
    }

    /// Returns the ReplicaSets of the Deployment. Returns `None` if one must be adopted or released first; its
    /// change causes another reconciliation.
    async fn claim_sets<'s>(
        &self,
        live: &Live<'_>,
        sets: &'s [Arc<Object>],
    ) -> Result<Option<Vec<&'s ReplicaSet>>, Error> {
        let metadata = &live.deployment.metadata;
        let owner = Owner {
            uid: &metadata.uid,
            is_terminating: metadata.is_terminating(),
            selector: &live.deployment.spec.selector,
        };
        let (mut own, mut is_final) = (Vec::new(), true);
        for object in sets {
            let Some(set) = object.replica_set() else { continue };
            let candidate = Candidate {
                controller: object.controller(),
                labels: &object.labels,
                is_terminating: object.is_terminating,
            };
            let patch = match claim(owner, candidate) {
                Claim::Keep => {
                    own.push(set);
                    continue;
                }
                Claim::Ignore => continue,
                Claim::Adopt => {
                    let (name, uid) = (&metadata.name, &metadata.uid);
                    if !may_adopt(&self.client, &Kind::DEPLOYMENT, live.namespace, name, uid).await? {
                        return Ok(None);
                    }
                    let reference = controller_reference(&Kind::DEPLOYMENT, &metadata.name, &metadata.uid);
                    adoption(&object.uid, &reference)
                }
                Claim::Release => release(&object.uid, &metadata.uid),
            };
            is_final = false;
            patch_owners(&self.client, &Kind::REPLICA_SET, live.namespace, &object.name, patch).await?;
        }
        Ok(is_final.then_some(own))
    }

    /// Whether the cached ReplicaSets show all writes of this controller.
    ///
    /// The ReplicaSets are listed after this check: an event in between makes the list newer than the check.
    async fn has_seen_own_writes(&self, live: &Live<'_>) -> Result<bool, Error> {
        let (uid, kind) = (&live.deployment.metadata.uid, &Kind::REPLICA_SET);
        let overdue = self.expectations().overdue(uid, Instant::now());
        for name in overdue {
            let found = Object::find(&self.client, kind, live.namespace, &name).await?;
            let seen = found.as_ref().map(seen);
            self.expectations().confirm(uid, &name, seen, Instant::now());
        }
        let pending = self.expectations().pending(uid);
        let cached: HashMap<Box<str>, Arc<Object>> = pending
            .into_iter()
            .filter_map(|name| Some((name.clone(), self.informers.get(kind, live.namespace, &name)?)))
            .collect();
        Ok(self.expectations().settle(uid, |name| cached.get(name).map(|set| seen(set))))
    }

    async fn reconcile_live(&self, live: &Live<'_>, sets: &[Arc<Object>]) -> Result<Action, Error> {
        let deployment = live.deployment;
        if deployment.spec.selector == LabelSelector::default() {
            let text = "This deployment is selecting all pods. A non-empty selector is required.";
            self.record(live, true, "SelectingAll", text).await;
            return Ok(Action::AwaitChange);
        }
        let Some(own) = self.claim_sets(live, sets).await? else { return Ok(Action::AwaitChange) };
        let pods = if strategy::is_rolling(deployment) {
            Vec::new()
        } else {
            self.informers.list(&Kind::POD, live.namespace)
        };
        let with_pods = pods.iter().filter(|pod| !pod.pod().is_terminal());
        let with_pods = with_pods.filter_map(|pod| pod.controller().map(|owner| &*owner.uid)).collect();
        let now = Timestamp::now();
        let plan = plan::plan(Input { deployment, sets: &own, with_pods: &with_pods, now });
        if !self.apply(live, &plan.writes).await? {
            return Ok(Action::Retry);
        }
        self.update_status(live, &plan.status, plan.revision.as_deref()).await?;
        Ok(plan.requeue_after.map_or(Action::AwaitChange, Action::RequeueAfter))
    }
}

fn is_deployment(owner: &OwnerReference) -> bool {
    *owner.kind == *Kind::DEPLOYMENT.kind && owner.group() == Kind::DEPLOYMENT.group
}

#[async_trait]
impl Controller for DeploymentController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::POD) {
            self.on_pod_change(change, queue);
        } else if change.kind.is(&Kind::REPLICA_SET) {
            self.on_set_change(change, queue);
        } else if change.kind.is(&Kind::DEPLOYMENT) {
            match (&change.before, &change.now) {
                (Some(gone), None) => self.expectations().forget(&gone.uid),
                (_, Some(now)) => queue.add(&now.key()),
                (None, None) => {}
            }
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(json) = self.client.find(&Kind::DEPLOYMENT, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        let deployment: Deployment =
            serde::Deserialize::deserialize(&json).map_err(|source| unreadable(&self.client, source))?;
        let live = Live { namespace, deployment: &deployment, json: &json };
        if !self.has_seen_own_writes(&live).await? {
            return Ok(Action::RequeueAfter(CONFIRM_AFTER));
        }
        let sets = self.informers.list(&Kind::REPLICA_SET, namespace);
        self.reconcile_live(&live, &sets).await
    }
}
