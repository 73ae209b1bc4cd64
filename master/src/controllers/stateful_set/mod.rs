//! The StatefulSet controller: it keeps pods with stable names and claims, and updates them in order.

pub mod claims;
pub mod identity;
mod members;
pub mod plan;
pub mod status;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use client::{Client, Error, Json, Kind};
use jiff::Timestamp;
use serde_json::Value;

use self::claims::{Claim, Claims};
use self::plan::{Input, RevisionNames, is_member};
use super::informers::{Change, SharedInformers};
use super::object::{Object, unreadable};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use super::workloads::claim::release;
use super::workloads::expectations::CONFIRM_AFTER;
use super::workloads::history::{HASH_LABEL, Revision};
use super::workloads::own_writes::OwnWrites;
use super::workloads::owners::{enqueue_adopters, enqueue_owners, is_irrelevant};
use super::workloads::replica::Replica;
use super::workloads::requests::{Claimant, claim_all, patch_owners};
use super::workloads::revisions::{RevisionOwner, Revisions};
use crate::objects::StatefulSet;

/// The controller's stock name in `--controllers`. It is also the name of its service account, and the source of
/// its events.
pub const NAME: &str = "statefulset-controller";
/// Number of concurrent reconciliations, the stock default.
const WORKERS: usize = 5;

#[derive(Debug)]
pub struct StatefulSetController {
    client: Client,
    informers: SharedInformers,
    writes: OwnWrites,
    revisions: Revisions,
}

/// A StatefulSet that was read from the API server, not from the cache.
struct Live<'a> {
    namespace: &'a str,
    set: &'a StatefulSet,
    /// The whole object. Its templates are copied into pods and claims.
    json: &'a Json,
}

impl Live<'_> {
    /// Returns a field of the specification.
    fn spec(&self, field: &str) -> &Value {
        self.json.get("spec").and_then(|spec| spec.get(field)).unwrap_or(&Value::Null)
    }
}

impl StatefulSetController {
    /// Creates the controller. It reads pods, claims and ControllerRevisions of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        let writes = OwnWrites::new(Kind::POD);
        let revisions = Revisions::new(client.clone(), informers.clone(), Kind::STATEFUL_SET, HASH_LABEL);
        Self { client, informers, writes, revisions }
    }

    /// Enqueues the StatefulSets with the labels of a claim that is gone or is being deleted.
    fn on_claim_change(&self, change: &Change, queue: &WorkQueue) {
        let is_ending = change.now.as_ref().is_none_or(|claim| claim.is_terminating);
        let Some(claim) = change.object().filter(|_| is_ending) else { return };
        for set in self.informers.list(&Kind::STATEFUL_SET, &claim.namespace) {
            if set.stateful_set_selector().is_some_and(|selector| selector.matches(&claim.labels)) {
                queue.add(&set.key());
            }
        }
    }

    /// Returns the pods of the StatefulSet. Returns `None` if one had to be adopted or released first; its change causes
    /// another reconciliation.
    async fn claim_pods(
        &self,
        live: &Live<'_>,
        pods: Vec<Arc<Object>>,
    ) -> Result<Option<Vec<Arc<Object>>>, Error> {
        let metadata = &live.set.metadata;
        let (uid, is_terminating) = (&*metadata.uid, metadata.is_terminating());
        let (members, others): (Vec<Arc<Object>>, Vec<Arc<Object>>) =
            pods.into_iter().partition(|pod| is_member(live.set, &Replica::of(pod)));
        // A pod with another name has no ordinal.
        let is_own = |pod: &&Arc<Object>| pod.controller().is_some_and(|owner| *owner.uid == *uid);
        let foreign: Vec<&Arc<Object>> = others.iter().filter(|pod| !is_terminating && is_own(pod)).collect();
        for pod in &foreign {
            let patch = release(&pod.uid, uid);
            patch_owners(&self.client, &Kind::POD, live.namespace, &pod.name, patch).await?;
        }
        let kind = Kind::STATEFUL_SET;
        let claimant = Claimant::of(&kind, metadata, &live.set.spec.selector);
        Ok(claim_all(&self.client, &claimant, &Kind::POD, &members).await?.settled())
    }

    async fn reconcile_live(&self, live: &Live<'_>, pods: Vec<Arc<Object>>) -> Result<Action, Error> {
        let (set, metadata) = (live.set, &live.set.metadata);
        let Some(pods) = self.claim_pods(live, pods).await? else { return Ok(Action::AwaitChange) };
        let pods: Vec<Replica<'_>> = pods.iter().map(|pod| Replica::of(pod)).collect();
        let owner = RevisionOwner {
            metadata,
            selector: &set.spec.selector,
            template: live.spec("template"),
            collisions: set.status.collision_count.unwrap_or(0),
        };
        let Some(revisions) = self.revisions.claim(&owner).await? else { return Ok(Action::AwaitChange) };
        let revisions: Vec<Revision<'_>> = revisions.iter().filter_map(|one| Revision::of(one)).collect();
        let update = if metadata.is_terminating() {
            set.status.update_revision.clone()
        } else if let Some(update) = self.revisions.record(&owner, &revisions).await? {
            update.name
        } else {
            self.count_collision(live).await?;
            return Ok(Action::Retry);
        };
        let is_known = revisions.iter().any(|one| *one.name == *set.status.current_revision);
        let current = if is_known { &set.status.current_revision } else { &update };
        let names = RevisionNames { current, update: &update };

        let claims = self.informers.list(&Kind::PERSISTENT_VOLUME_CLAIM, live.namespace);
        let claims: Claims<'_> = claims.iter().map(|one| (&*one.name, claim(one))).collect();
        let now = Timestamp::now();
        let plan = plan::plan(&Input { set, pods: &pods, claims: &claims, revisions: names, now });
        let is_done = self.apply(live, names, &plan.phases).await;
        self.update_status(live, &plan.status).await?;
        if !metadata.is_terminating() {
            let of_pods = pods.iter().map(status::revision);
            let kept: HashSet<&str> = of_pods.chain([names.current, names.update]).collect();
            let limit = set.spec.revision_history_limit;
            self.revisions.truncate(live.namespace, &revisions, &kept, limit).await?;
        }
        if !is_done {
            return Ok(Action::Retry);
        }
        Ok(plan.requeue_after.map_or(Action::AwaitChange, Action::RequeueAfter))
    }
}

fn claim(object: &Object) -> Claim<'_> {
    Claim { owners: &object.owners, is_terminating: object.is_terminating }
}

#[async_trait]
impl Controller for StatefulSetController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::POD) {
            if !is_irrelevant(change) {
                enqueue_owners(change, &Kind::STATEFUL_SET, &self.writes, queue);
                let selector = Object::stateful_set_selector;
                enqueue_adopters(change, &Kind::STATEFUL_SET, &self.informers, queue, selector);
            }
        } else if change.kind.is(&Kind::CONTROLLER_REVISION) {
            self.revisions.on_change(change, queue);
        } else if change.kind.is(&Kind::PERSISTENT_VOLUME_CLAIM) {
            self.on_claim_change(change, queue);
        } else if change.kind.is(&Kind::STATEFUL_SET) {
            match (&change.before, &change.now) {
                (Some(gone), None) => {
                    self.writes.forget(&gone.uid);
                    self.revisions.forget(&gone.uid);
                }
                (_, Some(now)) => queue.add(&now.key()),
                (None, None) => {}
            }
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(json) = self.client.find(&Kind::STATEFUL_SET, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        let set: StatefulSet =
            serde::Deserialize::deserialize(&json).map_err(|source| unreadable(&self.client, source))?;
        let live = Live { namespace, set: &set, json: &json };
        // If the informers do not show the controller's own writes yet, it would repeat them, and the status would lack
        // pods.
        let uid = &set.metadata.uid;
        let has_seen_writes = self.writes.are_seen(&self.client, &self.informers, namespace, uid).await?
            && self.revisions.has_seen_own_writes(namespace, uid).await?;
        if !has_seen_writes {
            return Ok(Action::RequeueAfter(CONFIRM_AFTER));
        }
        let pods = self.informers.list(&Kind::POD, namespace);
        self.reconcile_live(&live, pods).await
    }
}
