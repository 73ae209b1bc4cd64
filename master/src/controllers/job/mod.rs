//! The Job controller: it runs pods until enough of them succeed or too many fail, and counts each of them once.

pub mod backoff;
mod indexes;
pub mod plan;
pub mod pod;
mod pod_counts;
mod pods;
pub mod scaling;
mod target;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use client::{Client, Error, Json, Kind};
use jiff::Timestamp;

use self::backoff::Backoff;
use self::plan::{Input, Plan, Suspension};
use self::pod::JobPod;
use self::scaling::Step;
use self::target::Target;
use super::fields::JOB_TRACKING;
use super::informers::{Change, SharedInformers};
use super::object::{Object, unreadable};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use super::workloads::claim::{Candidate, Claim, Owner, claim};
use super::workloads::expectations::CONFIRM_AFTER;
use super::workloads::owners::{enqueue_adopters, is_of_kind};
use super::workloads::pod_control::{PodControl, PodOwner};
use super::workloads::requests::is_refused;
use crate::objects::job::JobStatus;
use crate::objects::{Job, LabelSelector, OwnerReference};

/// The controller's stock name in `--controllers`. It is also the name of its service account and the source of its
/// events.
pub const NAME: &str = "job-controller";
/// Number of concurrent reconciliations, the stock default.
const WORKERS: usize = 5;

#[derive(Debug)]
pub struct JobController {
    client: Client,
    informers: SharedInformers,
    pods: PodControl,
    /// Failures of pods by the UID of their Job. The number of unfinished Jobs limits their number.
    backoffs: Mutex<HashMap<Box<str>, Backoff>>,
}

/// A Job that was read from the API server, not from the cache.
struct Live<'a> {
    namespace: &'a str,
    job: &'a Job,
    /// The whole object. Its template is copied into pods.
    json: &'a Json,
}

impl Live<'_> {
    fn owner(&self) -> PodOwner<'_> {
        PodOwner::of(self.namespace, &self.job.metadata, &self.job.spec.selector)
    }
}

/// A key of the work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key<'a> {
    Job {
        namespace: &'a str,
        name: &'a str,
    },
    /// A pod with the finalizer of Jobs and without an owner.
    Orphan {
        namespace: &'a str,
        name: &'a str,
    },
}

impl<'a> Key<'a> {
    fn parse(key: &'a str) -> Self {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        match name.strip_prefix('/') {
            Some(name) => Self::Orphan { namespace, name },
            None => Self::Job { namespace, name },
        }
    }

    fn orphan(pod: &Object) -> String {
        format!("{}//{}", pod.namespace, pod.name)
    }
}

impl JobController {
    /// Creates the controller. It reads pods and Jobs of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        let pods = PodControl::new(client.clone(), informers.clone(), Kind::JOB, NAME);
        let pods = pods.with_finalizer(JOB_TRACKING);
        Self { client, informers, pods, backoffs: Mutex::default() }
    }

    fn backoffs(&self) -> MutexGuard<'_, HashMap<Box<str>, Backoff>> {
        self.backoffs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, uid: &str) {
        self.pods.forget(uid);
        self.backoffs().remove(uid);
    }

    /// Keeps the failures of a Job, unless the Job was deleted meanwhile. Its entry would otherwise leak.
    fn remember(&self, live: &Live<'_>, backoff: Backoff) {
        let metadata = &live.job.metadata;
        self.backoffs().insert(metadata.uid.clone(), backoff);
        let cached = self.informers.get(&Kind::JOB, live.namespace, &metadata.name);
        if cached.is_none_or(|cached| *cached.uid != *metadata.uid) {
            self.backoffs().remove(&metadata.uid);
        }
    }

    fn on_pod_change(&self, change: &Change, queue: &WorkQueue) {
        self.pods.enqueue_owners(change, queue);
        enqueue_adopters(change, &Kind::JOB, &self.informers, queue, unfinished_selector);
        let orphan = change.now.as_ref().filter(|now| now.controller().is_none());
        if let Some(orphan) = orphan.filter(|orphan| orphan.has_finalizer(JOB_TRACKING)) {
            queue.add(&Key::orphan(orphan));
        }
    }

    /// Enqueues the pods without an owner that the Job could adopt before it finished or was deleted.
    fn enqueue_orphans(&self, change: &Change, queue: &WorkQueue) {
        let Some(before) = &change.before else { return };
        let Some(owner) = adopter(before) else { return };
        if change.now.as_ref().is_some_and(|now| adopter(now).is_some()) {
            return;
        }
        for pod in self.informers.list(&Kind::POD, &before.namespace) {
            if pod.has_finalizer(JOB_TRACKING) && adopts(owner, &pod) {
                queue.add(&Key::orphan(&pod));
            }
        }
    }

    /// Removes the finalizer of a pod without an owner, unless a Job adopts the pod.
    async fn release_orphan(&self, namespace: &str, name: &str) -> Result<Action, Error> {
        let Some(pod) = self.informers.get(&Kind::POD, namespace, name) else {
            return Ok(Action::AwaitChange);
        };
        let jobs = self.informers.list(&Kind::JOB, namespace);
        let is_adopted = jobs.iter().filter_map(|job| adopter(job)).any(|owner| adopts(owner, &pod));
        if pod.controller().is_none() && !is_adopted {
            self.release(namespace, &pod).await?;
        }
        Ok(Action::AwaitChange)
    }

    /// Removes the finalizers of pods of Jobs of this name that do not count them any more. `counting` is the UID of the
    /// Job that still does.
    ///
    /// # Errors
    /// If a pod keeps its finalizer. The finalizers of the other pods are removed.
    async fn release_strays(&self, namespace: &str, name: &str, counting: Option<&str>) -> Result<(), Error> {
        let mut result = Ok(());
        for pod in self.informers.list(&Kind::POD, namespace) {
            let owner = pod.controller().filter(|owner| is_job(owner) && *owner.name == *name);
            let is_stray = owner.is_some_and(|owner| Some(&*owner.uid) != counting);
            if is_stray {
                result = result.and(self.release(namespace, &pod).await);
            }
        }
        result
    }

    /// Returns the cached pods of the Job. If one that the status names is missing, the pods are read from the API
    /// server: only a pod that certainly has no finalizer any more may be counted. A pod that the status names and that
    /// has the finalizer is returned even if it lost its labels or its owner.
    ///
    /// Returns `None` if an orphan could not be adopted, because the cache does not show its last change.
    async fn own_pods(
        &self,
        live: &Live<'_>,
        owner: &PodOwner<'_>,
    ) -> Result<Option<Vec<Arc<Object>>>, Error> {
        let uncounted = &live.job.status.uncounted_terminated_pods;
        let uncounted: HashSet<&str> =
            uncounted.succeeded.iter().chain(&uncounted.failed).map(|uid| &**uid).collect();
        let is_own = |pod: &Arc<Object>| match pod.controller() {
            Some(controller) => *controller.uid == *owner.uid,
            None => uncounted.contains(&*pod.uid) && pod.has_finalizer(JOB_TRACKING),
        };
        let cached = self.informers.list(&Kind::POD, live.namespace);
        let own: Vec<Arc<Object>> = if owner.is_terminating {
            // Pods that no longer match keep this owner, and must be counted.
            cached.iter().filter(|pod| is_own(pod)).cloned().collect()
        } else {
            self.pods.claim(owner, &cached).await?.into_iter().cloned().collect()
        };
        let known: HashSet<&str> = own.iter().map(|pod| &*pod.uid).collect();
        if cached.iter().any(|pod| adopts(owner.owner(), pod) && !known.contains(&*pod.uid)) {
            return Ok(None);
        }
        if uncounted.is_subset(&known) {
            return Ok(Some(own));
        }
        // The labels of a pod may have changed.
        let mut listed = Vec::new();
        self.client.list(&Kind::POD, live.namespace, |pod| listed.push(pod)).await?;
        let listed = listed.iter().map(|pod| Object::of(&self.client, &Kind::POD, pod).map(Arc::new));
        let listed: Vec<Arc<Object>> = listed.collect::<Result<_, _>>()?;
        Ok(Some(listed.into_iter().filter(is_own).collect()))
    }

    /// Plans with cached pods and carries out the plan. Before a pod is counted, it is read from the API server: the
    /// cache may still show a finalizer that was removed, and the pod would be counted twice.
    async fn reconcile_live(&self, live: &Live<'_>, mut pods: Vec<Arc<Object>>) -> Result<Action, Error> {
        let uncounted = &live.job.status.uncounted_terminated_pods;
        let mut confirmed: HashSet<String> =
            uncounted.succeeded.iter().chain(&uncounted.failed).map(|uid| uid.to_string()).collect();
        loop {
            let views: Vec<JobPod<'_>> = pods.iter().filter_map(|pod| JobPod::of(pod)).collect();
            // The cache does not show an adoption yet.
            if views.len() < pods.len() {
                return Ok(Action::RequeueAfter(CONFIRM_AFTER));
            }
            let backoff = self.backoffs().get(&live.job.metadata.uid).copied();
            let plan = plan::plan(Input { job: live.job, pods: &views, backoff, now: Timestamp::now() });
            let unconfirmed: Vec<String> = plan
                .release
                .iter()
                .filter(|pod| !confirmed.contains(pod.uid()))
                .map(|pod| pod.replica.name.to_owned())
                .collect();
            if unconfirmed.is_empty() {
                return self.carry_out(live, &views, plan).await;
            }
            let fresh = self.read_pods(live.namespace, &unconfirmed).await?;
            pods = pods
                .iter()
                .filter_map(|pod| match fresh.get(&pod.name) {
                    None => Some(pod.clone()),
                    Some(found) => found.clone().filter(|found| found.uid == pod.uid),
                })
                .collect();
            confirmed
                .extend(pods.iter().filter(|pod| fresh.contains_key(&pod.name)).map(|pod| pod.uid.clone()));
        }
    }

    async fn carry_out(&self, live: &Live<'_>, pods: &[JobPod<'_>], plan: Plan<'_>) -> Result<Action, Error> {
        let uid = &live.job.metadata.uid;
        let written = self.write_status(live.json, &live.job.status, &plan.status).await;
        // A write without an answer may have been done.
        if written.as_ref().err().is_none_or(|error| !is_refused(error)) {
            self.remember(live, plan.backoff);
        }
        let json = written?;
        if let Some(suspension) = plan.suspension {
            let (reason, message) = match suspension {
                Suspension::Suspended => ("Suspended", "Job suspended"),
                Suspension::Resumed => ("Resumed", "Job resumed"),
            };
            self.pods.record(&live.owner(), false, reason, message).await;
        }
        let (released, failed) = self.release_pods(live, &plan.release).await;
        let tracked = pods.iter().filter(|pod| pod.is_tracked).map(JobPod::uid);
        let tracked: HashSet<&str> = tracked.filter(|uid| !released.contains(uid)).collect();
        let status = plan.conclude(&tracked, Timestamp::now());
        self.write_status(&json, &plan.status, &status).await?;
        if let Some(target) = plan.target.as_ref().filter(|_| is_finished(&status)) {
            self.record_end(live, &status, target).await;
            self.forget(uid);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let is_done = match &plan.step {
            Step::Nothing => true,
            Step::Create(new) => self.create_pods(live, new).await,
            Step::DeleteCounted(pods) => self.delete_pods(live, pods, false).await,
            Step::DeleteUncounted(pods) => self.delete_pods(live, pods, true).await,
        };
        if !is_done {
            return Ok(Action::Retry);
        }
        Ok(plan.requeue_after.map_or(Action::AwaitChange, Action::RequeueAfter))
    }

    /// Writes the status if it has changed. Returns the present object.
    ///
    /// # Errors
    /// If the Job was changed meanwhile. The caller retries.
    async fn write_status(&self, job: &Json, before: &JobStatus, status: &JobStatus) -> Result<Json, Error> {
        let mut object = job.clone();
        if status == before {
            return Ok(object);
        }
        object.insert("status".to_owned(), status.to_json());
        self.client.update(&Kind::JOB, "status", object).await
    }

    async fn record_end(&self, live: &Live<'_>, status: &JobStatus, target: &Target) {
        if target.has_failed {
            self.pods.record(&live.owner(), true, &target.reason, &target.message).await;
            return;
        }
        if live.job.spec.completions.is_some_and(|wanted| status.succeeded > wanted) {
            let text = "Too many succeeded pods running after completion count reached";
            self.pods.record(&live.owner(), true, "TooManySucceededPods", text).await;
        }
        self.pods.record(&live.owner(), false, "Completed", "Job completed").await;
    }
}

fn is_job(owner: &OwnerReference) -> bool {
    is_of_kind(owner, &Kind::JOB)
}

/// The selector of a Job that has not finished.
fn unfinished_selector(job: &Object) -> Option<&LabelSelector> {
    job.job().filter(|job| job.end.is_none()).map(|job| &job.selector)
}

/// Returns the Job as owner of pods, if it adopts any: it has not finished and is not being deleted.
fn adopter(job: &Object) -> Option<Owner<'_>> {
    let selector = unfinished_selector(job).filter(|_| !job.is_terminating)?;
    Some(Owner { uid: &job.uid, is_terminating: false, selector })
}

/// Whether an owner adopts the pod when it is reconciled next.
fn adopts(owner: Owner<'_>, pod: &Object) -> bool {
    let (controller, labels) = (pod.controller(), &pod.labels);
    claim(owner, Candidate { controller, labels, is_terminating: pod.is_terminating }) == Claim::Adopt
}

fn is_finished(status: &JobStatus) -> bool {
    status.is_true("Complete") || status.is_true("Failed")
}

#[async_trait]
impl Controller for JobController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::POD) {
            self.on_pod_change(change, queue);
        } else if change.kind.is(&Kind::JOB)
            && let Some(job) = change.object()
        {
            if change.now.is_none() {
                self.forget(&job.uid);
            }
            self.enqueue_orphans(change, queue);
            queue.add(&job.key());
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = match Key::parse(key) {
            Key::Job { namespace, name } => (namespace, name),
            Key::Orphan { namespace, name } => return self.release_orphan(namespace, name).await,
        };
        let Some(json) = self.client.find(&Kind::JOB, namespace, name).await? else {
            self.release_strays(namespace, name, None).await?;
            return Ok(Action::AwaitChange);
        };
        let job: Job =
            serde::Deserialize::deserialize(&json).map_err(|source| unreadable(&self.client, source))?;
        if job.is_managed_elsewhere() {
            return Ok(Action::AwaitChange);
        }
        let counting = Some(&*job.metadata.uid).filter(|_| !job.is_finished());
        // Pods of an earlier Job of this name do not hold up this one.
        let released = self.release_strays(namespace, name, counting).await;
        if job.is_finished() {
            self.forget(&job.metadata.uid);
            return released.map(|()| Action::AwaitChange);
        }
        let live = Live { namespace, job: &job, json: &json };
        if !self.pods.has_seen_own_writes(namespace, &job.metadata.uid).await? {
            return Ok(Action::RequeueAfter(CONFIRM_AFTER));
        }
        let Some(pods) = self.own_pods(&live, &live.owner()).await? else {
            return Ok(Action::RequeueAfter(CONFIRM_AFTER));
        };
        let action = self.reconcile_live(&live, pods).await?;
        released.map(|()| action)
    }
}
