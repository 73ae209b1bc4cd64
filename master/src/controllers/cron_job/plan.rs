//! Plans the next step of a CronJob: which Job to start, which to delete, and the status. Pure.
//!
//! The name of a Job contains its scheduled minute, and the Job has that time as annotation. Thus a crash between any
//! two writes, and a clock that jumps, start no Job twice. The exception is a Job that `ttlSecondsAfterFinished`
//! deletes between a crash and the next reconcile.

use std::time::Duration;

use api::cron::Schedule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::objects::CronJob;
use crate::objects::cron_job::{ConcurrencyPolicy, CronJobStatus, JobReference};
use crate::objects::replica_set::whole_seconds;

/// Number of missed starts above which an event warns, as in stock Kubernetes.
const MANY_MISSED: usize = 100;

/// A Job of the CronJob.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnJob<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub resource_version: &'a str,
    /// Whether the Job is complete (true) or failed (false). `None` if it has not finished.
    pub end: Option<bool>,
    /// When the Job finished.
    pub ended: Option<Timestamp>,
    pub started: Option<Timestamp>,
    /// The time for which the CronJob started the Job. `None` if a user created it.
    pub scheduled: Option<Timestamp>,
    pub is_terminating: bool,
}

/// The input of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub cron_job: &'a CronJob,
    /// All Jobs of the CronJob. Those that the status lists are certainly among them, if they exist.
    pub jobs: &'a [OwnJob<'a>],
    pub now: Timestamp,
}

/// The next step of a CronJob. The controller carries it out in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The status to write first, if it has changed. It keeps the times of Jobs that are then deleted.
    pub status: CronJobStatus,
    /// Events to record when the status is written.
    pub events: Vec<CronJobEvent>,
    /// Names and UIDs of the active Jobs that the new Job replaces. They are deleted before it is created.
    pub replace: Vec<(String, String)>,
    /// The Job to create. The status is then [`Plan::status_with`] it.
    pub start: Option<Start>,
    /// Names and UIDs of finished Jobs above the history limits.
    pub expired: Vec<(String, String)>,
    /// Time until the next Job is due.
    pub requeue_after: Option<Duration>,
}

/// A Job to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub name: String,
    pub scheduled: Timestamp,
    /// The scheduled time in the zone of the CronJob, for the annotation.
    pub annotation: String,
}

/// An event about a CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronJobEvent {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
    /// Whether the state lasts, so that the event is recorded only when it begins.
    pub is_lasting: bool,
}

impl Plan {
    fn event(&mut self, is_warning: bool, is_lasting: bool, reason: &'static str, message: String) {
        self.events.push(CronJobEvent { is_warning, reason, message, is_lasting });
    }

    /// Returns the status with the Job that was started, and without those that it replaces. `job` is `None` if the Job
    /// was started before and has finished.
    pub fn status_with(&self, start: &Start, job: Option<JobReference>) -> CronJobStatus {
        let mut status = self.status.clone();
        status.last_schedule_time = Some(start.scheduled);
        let is_replaced = |known: &JobReference| self.replace.iter().any(|(_, uid)| **uid == *known.uid);
        let is_new = |known: &JobReference| job.as_ref().is_some_and(|job| job.uid == known.uid);
        let others = self.status.active.iter().filter(|known| !is_replaced(known) && !is_new(known));
        let others: Vec<JobReference> = others.cloned().collect();
        status.active = others.into_iter().chain(job).collect();
        status
    }
}

/// Plans the next step.
pub fn plan(input: Input<'_>) -> Plan {
    let mut plan = Plan { status: input.cron_job.status.clone(), ..Plan::default() };
    observe_jobs(input, &mut plan);
    let spec = &input.cron_job.spec;
    trim_history(input, true, spec.successful_jobs_history_limit, &mut plan);
    trim_history(input, false, spec.failed_jobs_history_limit, &mut plan);
    if !input.cron_job.metadata.is_terminating() {
        schedule(input, &mut plan);
    }
    plan
}

/// Updates the status by the Jobs that exist.
fn observe_jobs(input: Input<'_>, plan: &mut Plan) {
    let mut active: Vec<JobReference> = Vec::new();
    for known in &plan.status.active.clone() {
        match input.jobs.iter().find(|job| *job.uid == *known.uid) {
            None => {
                plan.event(false, false, "MissingJob", format!("Active job went missing: {}", known.name));
            }
            Some(OwnJob { end: Some(is_complete), .. }) => {
                let condition = if *is_complete { "Complete" } else { "Failed" };
                let message = format!("Saw completed job: {}, condition: {condition}", known.name);
                plan.event(false, false, "SawCompletedJob", message);
            }
            Some(_) => active.push(known.clone()),
        }
    }
    for job in input.jobs {
        if job.end.is_none() && !active.iter().any(|known| *known.uid == *job.uid) {
            // The CronJob started the Job, and crashed before it wrote the status.
            if job.scheduled.is_some() {
                active.push(reference(input.cron_job, job));
            } else {
                let message = format!("Saw a job that the controller did not create or forgot: {}", job.name);
                plan.event(true, true, "UnexpectedJob", message);
            }
        }
        if job.end == Some(true) {
            plan.status.last_successful_time = plan.status.last_successful_time.max(job.ended);
        }
        plan.status.last_schedule_time = plan.status.last_schedule_time.max(job.scheduled);
    }
    plan.status.active = active.into();
}

fn reference(cron_job: &CronJob, job: &OwnJob<'_>) -> JobReference {
    JobReference {
        name: job.name.into(),
        namespace: cron_job.metadata.namespace.clone(),
        uid: job.uid.into(),
        resource_version: job.resource_version.into(),
    }
}

/// Deletes the oldest finished Jobs above the limit.
fn trim_history(input: Input<'_>, is_complete: bool, limit: Option<i64>, plan: &mut Plan) {
    let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { return };
    let is_kept = |job: &&OwnJob<'_>| job.end == Some(is_complete) && !job.is_terminating;
    let mut jobs: Vec<&OwnJob<'_>> = input.jobs.iter().filter(is_kept).collect();
    jobs.sort_by_key(|job| (job.started.is_none(), job.started, job.name));
    jobs.truncate(jobs.len().saturating_sub(limit));
    plan.expired.extend(jobs.iter().map(|job| (job.name.to_owned(), job.uid.to_owned())));
}

/// Starts the Job of the last time that is due.
fn schedule(input: Input<'_>, plan: &mut Plan) {
    let Input { cron_job, now, .. } = input;
    let spec = &cron_job.spec;
    let zone = match spec.time_zone.as_deref().map(TimeZone::get) {
        None => TimeZone::UTC,
        Some(Ok(zone)) => zone,
        Some(Err(error)) => {
            let name = spec.time_zone.as_deref().unwrap_or_default();
            plan.event(true, true, "UnknownTimeZone", format!("invalid timeZone: {name:?}: {error}"));
            return;
        }
    };
    if cron_job.is_suspended() {
        return;
    }
    let schedule = match Schedule::parse(&spec.schedule) {
        Ok(schedule) => schedule,
        Err(why) => {
            plan.event(
                true,
                true,
                "UnparseableSchedule",
                format!("unparseable schedule: {:?} : {why}", spec.schedule),
            );
            return;
        }
    };
    let created = cron_job.metadata.creation_timestamp.unwrap_or(now);
    let handled = plan.status.last_schedule_time.unwrap_or(created);
    let due = schedule.last(handled, now, &zone, MANY_MISSED);
    // After a clock jump backwards, the next time is after the last Job.
    let next = schedule.next(due.map_or(handled, |(due, _)| due), &zone);
    plan.requeue_after = next.and_then(|next| Duration::try_from(next.duration_since(now)).ok());
    let Some((scheduled, mut is_many)) = due else { return };
    if let Some(seconds) = spec.starting_deadline_seconds {
        let oldest = now.saturating_sub(SignedDuration::from_secs(seconds)).unwrap_or(handled);
        if scheduled < oldest {
            return;
        }
        let recent = schedule.last(handled.max(oldest), now, &zone, MANY_MISSED);
        is_many = recent.is_some_and(|(_, is_many)| is_many);
    }
    if is_many {
        let hint = "Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.event(true, true, "TooManyMissedTimes", format!("too many missed start times. {hint}"));
    }
    let scheduled = whole_seconds(scheduled);
    let name = format!("{}-{}", cron_job.metadata.name, scheduled.as_second().div_euclid(60));
    // `@every` below one minute has several times with the same name.
    if input.jobs.iter().any(|job| job.name == name) {
        plan.status.last_schedule_time = Some(scheduled);
        return;
    }
    match spec.concurrency_policy {
        ConcurrencyPolicy::Allow => {}
        ConcurrencyPolicy::Forbid if plan.status.active.is_empty() => {}
        ConcurrencyPolicy::Forbid => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.event(false, true, "JobAlreadyActive", message.to_owned());
            return;
        }
        ConcurrencyPolicy::Replace => {
            let replaced = plan.status.active.iter().map(|job| (job.name.to_string(), job.uid.to_string()));
            plan.replace.extend(replaced);
        }
    }
    let annotation = annotation(scheduled, spec.time_zone.is_some().then_some(&zone));
    plan.start = Some(Start { name, scheduled, annotation });
}

/// Writes a time as RFC 3339, in the given zone.
fn annotation(at: Timestamp, zone: Option<&TimeZone>) -> String {
    match zone {
        Some(zone) => {
            let text = at.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
            text.strip_suffix("+00:00").map(|text| format!("{text}Z")).unwrap_or(text)
        }
        None => at.to_string(),
    }
}
