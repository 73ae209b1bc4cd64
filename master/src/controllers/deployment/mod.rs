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

use std::sync::Arc;

use async_trait::async_trait;
use client::{Client, Error, Json, Kind};
use jiff::Timestamp;

use self::plan::Input;
use super::informers::{Change, SharedInformers};
use super::object::{Object, unreadable};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use super::workloads::expectations::CONFIRM_AFTER;
use super::workloads::own_writes::OwnWrites;
use super::workloads::owners::{enqueue_adopters, enqueue_owners, is_of_kind};
use super::workloads::requests::{Claimant, claim_all};
use crate::objects::{Deployment, LabelSelector, ReplicaSet};

/// The controller's stock name in `--controllers`. It is also the name of its service account, and the source of
/// its events.
pub const NAME: &str = "deployment-controller";
/// Number of concurrent reconciliations, the stock default.
const WORKERS: usize = 5;

#[derive(Debug)]
pub struct DeploymentController {
    client: Client,
    informers: SharedInformers,
    writes: OwnWrites,
}

/// A Deployment that was read from the API server, not from the cache.
struct Live<'a> {
    namespace: &'a str,
    deployment: &'a Deployment,
    /// The whole object. Its template is copied into ReplicaSets.
    json: &'a Json,
}

impl DeploymentController {
    /// Creates the controller. It reads ReplicaSets and pods of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers, writes: OwnWrites::new(Kind::REPLICA_SET) }
    }

    fn on_set_change(&self, change: &Change, queue: &WorkQueue) {
        enqueue_owners(change, &Kind::DEPLOYMENT, &self.writes, queue);
        enqueue_adopters(change, &Kind::DEPLOYMENT, &self.informers, queue, |deployment| {
            deployment.deployment().map(|fields| &fields.selector)
        });
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
        let Some(owner) = set.controller().filter(|owner| is_of_kind(owner, &Kind::DEPLOYMENT)) else {
            return;
        };
        let found = self.informers.get(&Kind::DEPLOYMENT, &pod.namespace, &owner.name);
        if let Some(deployment) = found.filter(|found| found.deployment().is_some_and(|one| one.is_recreated))
        {
            queue.add(&deployment.key());
        }
    }

    /// Returns the ReplicaSets of the Deployment. See [`claim_all`].
    async fn claim_sets(
        &self,
        live: &Live<'_>,
        sets: &[Arc<Object>],
    ) -> Result<Option<Vec<Arc<Object>>>, Error> {
        let Deployment { metadata, spec, .. } = live.deployment;
        let kind = Kind::DEPLOYMENT;
        let claimant = Claimant::of(&kind, metadata, &spec.selector);
        Ok(claim_all(&self.client, &claimant, &Kind::REPLICA_SET, sets).await?.settled())
    }

    async fn reconcile_live(&self, live: &Live<'_>, sets: &[Arc<Object>]) -> Result<Action, Error> {
        let deployment = live.deployment;
        if deployment.spec.selector == LabelSelector::default() {
            let text = "This deployment is selecting all pods. A non-empty selector is required.";
            self.record(live, true, "SelectingAll", text).await;
            return Ok(Action::AwaitChange);
        }
        let Some(own) = self.claim_sets(live, sets).await? else { return Ok(Action::AwaitChange) };
        let own: Vec<&ReplicaSet> = own.iter().filter_map(|set| set.replica_set()).collect();
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
                (Some(gone), None) => self.writes.forget(&gone.uid),
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
        let uid = &deployment.metadata.uid;
        if !self.writes.are_seen(&self.client, &self.informers, namespace, uid).await? {
            return Ok(Action::RequeueAfter(CONFIRM_AFTER));
        }
        let sets = self.informers.list(&Kind::REPLICA_SET, namespace);
        self.reconcile_live(&live, &sets).await
    }
}
