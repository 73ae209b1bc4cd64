//! The CronJob controller: it starts Jobs on a schedule, and deletes old ones.

pub mod plan;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use client::{Client, DeleteOptions, Error, Json, Kind, Propagation};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::plan::{CronJobEvent, Input, OwnJob, Plan, Start};
use super::event_recorder::{NewEvent, record_event};
use super::informers::{Change, SharedInformers};
use super::object::{Object, unreadable};
use super::rate_limited_queue::Action;
use super::wall_clock;
use super::work_queue::{Controller, WorkQueue};
use super::workloads::claim::controller_reference;
use super::workloads::expectations::{CONFIRM_AFTER, Expected};
use super::workloads::own_writes::OwnWrites;
use super::workloads::owners::enqueue_owners;
use super::workloads::requests::message;
use crate::objects::CronJob;
use crate::objects::cron_job::{CronJobStatus, JobReference};

/// The controller's stock name in `--controllers`. It is also the name of its service account and the source of its
/// events.
pub const NAME: &str = "cronjob-controller";
/// Number of concurrent reconciliations, the stock default.
const WORKERS: usize = 5;
/// The annotation of a Job with its scheduled time.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

#[derive(Debug)]
pub struct CronJobController {
    client: Client,
    informers: SharedInformers,
    /// The Jobs that it has created and not seen yet.
    writes: OwnWrites,
    /// Lasting states that events have reported, by the UID of the CronJob. The number of CronJobs limits their number.
    reported: Mutex<HashMap<Box<str>, Vec<CronJobEvent>>>,
}

/// A CronJob that was read from the API server, not from the cache.
struct Live<'a> {
    namespace: &'a str,
    cron_job: &'a CronJob,
    /// The whole object. The template of Jobs is copied from it.
    json: &'a Json,
}

/// The result of a request to create a Job.
enum Started {
    /// The Job was created now, or before a crash, and has not finished.
    Active(JobReference),
    /// The Job was created before and has finished.
    Finished,
    /// A Job of another owner has the name.
    NameTaken,
}

impl CronJobController {
    /// Creates the controller. It reads Jobs of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers, writes: OwnWrites::new(Kind::JOB), reported: Mutex::default() }
    }

    /// Returns the Jobs of the CronJob. A Job is read from the API server if the status lists it and the cache does not
    /// show it, or the other way round.
    async fn jobs(&self, live: &Live<'_>) -> Result<Vec<Arc<Object>>, Error> {
        let metadata = &live.cron_job.metadata;
        let is_own = |job: &Object| job.controller().is_some_and(|owner| owner.uid == metadata.uid);
        let status = &live.cron_job.status;
        let mut jobs = Vec::new();
        for job in self.informers.list(&Kind::JOB, live.namespace).into_iter().filter(|job| is_own(job)) {
            if status.is_active(&job.uid) || job.job().is_some_and(|fields| fields.end.is_some()) {
                jobs.push(job);
                continue;
            }
            let found = Object::find(&self.client, &Kind::JOB, live.namespace, &job.name).await?;
            jobs.extend(found.filter(|found| found.uid == job.uid).map(Arc::new));
        }
        for known in &status.active {
            if !jobs.iter().any(|job| *job.uid == *known.uid) {
                let found = Object::find(&self.client, &Kind::JOB, live.namespace, &known.name).await?;
                jobs.extend(found.filter(is_own).map(Arc::new));
            }
        }
        Ok(jobs)
    }

    async fn delete_job(&self, live: &Live<'_>, name: &str, uid: &str) -> Result<(), Error> {
        let how = DeleteOptions {
            uid: Some(uid),
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        match self.client.delete(&Kind::JOB, live.namespace, name, &how).await {
            Ok(()) => {
                self.record(live, false, "SuccessfulDelete", &format!("Deleted job {name}")).await;
                Ok(())
            }
            Err(error) => {
                let text = format!("Deleted job: {}", message(&error));
                self.record(live, true, "FailedDelete", &text).await;
                Err(error)
            }
        }
    }

    /// Creates a Job. If it exists already and belongs to the CronJob, it was created before a crash.
    async fn create_job(&self, live: &Live<'_>, start: &Start) -> Result<Started, Error> {
        let uid = &live.cron_job.metadata.uid;
        self.writes.expect(uid, &start.name, Expected::Created);
        let job = match self.client.create(&Kind::JOB, live.namespace, job(live, start)).await {
            Ok(job) => {
                self.record(live, false, "SuccessfulCreate", &format!("Created job {}", start.name)).await;
                Object::of(&self.client, &Kind::JOB, &job)?
            }
            Err(error) if error.exists() => {
                let found = Object::find(&self.client, &Kind::JOB, live.namespace, &start.name).await?;
                let is_own = |job: &Object| job.controller().is_some_and(|owner| owner.uid == *uid);
                let Some(job) = found.filter(is_own) else { return Ok(Started::NameTaken) };
                if job.job().is_some_and(|fields| fields.end.is_some()) {
                    return Ok(Started::Finished);
                }
                job
            }
            Err(error) => {
                self.writes.failed(uid, &start.name, &error);
                let namespace = self.informers.get(&Kind::NAMESPACE, "", live.namespace);
                if !namespace.is_some_and(|namespace| namespace.is_terminating) {
                    let text = format!("Error creating job: {}", message(&error));
                    self.record(live, true, "FailedCreate", &text).await;
                }
                return Err(error);
            }
        };
        Ok(Started::Active(JobReference {
            name: job.name.into(),
            namespace: job.namespace.into(),
            uid: job.uid.into(),
            resource_version: job.resource_version.into(),
        }))
    }

    /// Writes the status if it has changed. Returns the present object.
    async fn write_status(
        &self,
        cron_job: &Json,
        before: &CronJobStatus,
        status: &CronJobStatus,
    ) -> Result<Json, Error> {
        let mut object = cron_job.clone();
        if status == before {
            return Ok(object);
        }
        object.insert("status".to_owned(), status.to_json());
        self.client.update(&Kind::CRON_JOB, "status", object).await
    }

    /// Records events. One about a lasting state is recorded when the state begins.
    async fn record_all(&self, live: &Live<'_>, events: &[CronJobEvent]) {
        let lasting: Vec<CronJobEvent> = events.iter().filter(|event| event.is_lasting).cloned().collect();
        let before = self.report(live, lasting);
        for event in events.iter().filter(|event| !before.contains(event)) {
            self.record(live, event.is_warning, event.reason, &event.message).await;
        }
    }

    fn reported(&self) -> MutexGuard<'_, HashMap<Box<str>, Vec<CronJobEvent>>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the lasting events of a CronJob, and returns the previous ones. Drops the entry if the CronJob was
    /// deleted meanwhile, because it would never be removed.
    fn report(&self, live: &Live<'_>, lasting: Vec<CronJobEvent>) -> Vec<CronJobEvent> {
        let metadata = &live.cron_job.metadata;
        let before = self.reported().insert(metadata.uid.clone(), lasting).unwrap_or_default();
        let cached = self.informers.get(&Kind::CRON_JOB, live.namespace, &metadata.name);
        if cached.is_none_or(|cached| *cached.uid != *metadata.uid) {
            self.reported().remove(&metadata.uid);
        }
        before
    }

    /// Deletes old finished Jobs. Records a failure as an event. A failure does not delay the next Job.
    async fn delete_expired(&self, live: &Live<'_>, expired: &[(String, String)]) {
        for (name, uid) in expired {
            if let Err(error) = self.delete_job(live, name, uid).await {
                tracing::debug!(controller = NAME, job = %name, %error, "cannot delete an old Job");
            }
        }
    }

    /// Deletes the Jobs that the new one replaces, creates it, and writes the status with it.
    async fn start(&self, live: &Live<'_>, json: &Json, plan: &Plan) -> Result<(), Error> {
        let Some(start) = &plan.start else { return Ok(()) };
        for (name, uid) in &plan.replace {
            self.delete_job(live, name, uid).await?;
        }
        let status = match self.create_job(live, start).await? {
            Started::Active(job) => plan.status_with(start, Some(job)),
            Started::Finished => plan.status_with(start, None),
            Started::NameTaken => return Ok(()),
        };
        self.write_status(json, &plan.status, &status).await.map(drop)
    }

    async fn record(&self, live: &Live<'_>, is_warning: bool, reason: &str, message: &str) {
        let event = NewEvent {
            kind: &Kind::CRON_JOB,
            namespace: live.namespace,
            name: &live.cron_job.metadata.name,
            uid: &live.cron_job.metadata.uid,
            is_warning,
            reason,
            message,
            component: NAME,
        };
        record_event(&self.client, event).await;
    }
}

/// Returns the Job of the template for a scheduled time.
fn job(live: &Live<'_>, start: &Start) -> Value {
    let template = live.json.get("spec").and_then(|spec| spec.get("jobTemplate"));
    let field = |path: &str| template.and_then(|template| template.pointer(path)).cloned();
    let mut annotations = field("/metadata/annotations").unwrap_or_else(|| json!({}));
    annotations[SCHEDULED] = start.annotation.as_str().into();
    let owner = &live.cron_job.metadata;
    json!({
        "apiVersion": Kind::JOB.api_version(),
        "kind": Kind::JOB.kind,
        "metadata": {
            "name": start.name,
            "labels": field("/metadata/labels"),
            "annotations": annotations,
            "ownerReferences": [controller_reference(&Kind::CRON_JOB, &owner.name, &owner.uid)],
        },
        "spec": field("/spec"),
    })
}

fn own_job(job: &Object) -> OwnJob<'_> {
    let fields = job.job();
    let end = fields.and_then(|fields| fields.end);
    OwnJob {
        name: &job.name,
        uid: &job.uid,
        resource_version: &job.resource_version,
        end: end.map(|end| end.is_complete),
        ended: end.and_then(|end| end.at),
        started: fields.and_then(|fields| fields.started),
        scheduled: fields.and_then(|fields| fields.scheduled),
        is_terminating: job.is_terminating,
    }
}

#[async_trait]
impl Controller for CronJobController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::JOB) {
            enqueue_owners(change, &Kind::CRON_JOB, &self.writes, queue);
        } else if change.kind.is(&Kind::CRON_JOB) {
            match (&change.before, &change.now) {
                (Some(gone), None) => {
                    self.writes.forget(&gone.uid);
                    self.reported().remove(&*gone.uid);
                }
                (_, Some(now)) => queue.add(&now.key()),
                (None, None) => {}
            }
        }
    }

    /// Reconciles all CronJobs when the clock was set, because their delays are then wrong.
    async fn observe(&self, queue: &WorkQueue) {
        let changed = || {
            tracing::info!(controller = NAME, "the clock was set; checking all schedules");
            self.informers.list(&Kind::CRON_JOB, "").iter().for_each(|cron_job| queue.add(&cron_job.key()));
        };
        if let Err(error) = wall_clock::observe(changed).await {
            tracing::warn!(controller = NAME, %error, "cannot observe the clock; a Job may start late after it is set");
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(json) = self.client.find(&Kind::CRON_JOB, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        let cron_job: CronJob =
            serde::Deserialize::deserialize(&json).map_err(|source| unreadable(&self.client, source))?;
        let live = Live { namespace, cron_job: &cron_job, json: &json };
        // Without its own writes, the controller would not know which Jobs run.
        let uid = &cron_job.metadata.uid;
        if !self.writes.are_seen(&self.client, &self.informers, namespace, uid).await? {
            return Ok(Action::RequeueAfter(CONFIRM_AFTER));
        }
        let jobs = self.jobs(&live).await?;
        let own: Vec<OwnJob<'_>> = jobs.iter().map(|job| own_job(job)).collect();
        let plan = plan::plan(Input { cron_job: &cron_job, jobs: &own, now: Timestamp::now() });
        let json = self.write_status(&json, &cron_job.status, &plan.status).await?;
        self.record_all(&live, &plan.events).await;
        let started = self.start(&live, &json, &plan).await;
        self.delete_expired(&live, &plan.expired).await;
        started?;
        Ok(plan.requeue_after.map_or(Action::AwaitChange, Action::RequeueAfter))
    }
}
