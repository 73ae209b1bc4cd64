//! Decides whether a Job has succeeded or failed, and its conditions. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::indexes::Indexes;
use super::pod::{FailureEffect, JobPod};
use super::pod_counts::PodCounts;
use crate::objects::Job;
use crate::objects::job::{JobCondition, JobStatus};
use crate::objects::replica_set::whole_seconds;

const FAILURE_TARGET: &str = "FailureTarget";
const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";

/// The end that a Job has reached. The Job is finished when all its pods have terminated and are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub has_failed: bool,
    /// The reason of the conditions, and of the event of a failed Job.
    pub reason: Box<str>,
    /// Message for users.
    pub message: Box<str>,
}

impl Target {
    fn failure(reason: &str, message: &str) -> Self {
        Self { has_failed: true, reason: reason.into(), message: message.into() }
    }

    fn success(reason: &str, message: &str) -> Self {
        Self { has_failed: false, reason: reason.into(), message: message.into() }
    }

    /// Whether the status records that the Job has reached its end.
    pub fn is_recorded(status: &JobStatus) -> bool {
        status.is_true(SUCCESS_CRITERIA_MET) || status.is_true(FAILURE_TARGET)
    }

    /// Returns the end of the Job, if it has reached one. An end that the status records does not change.
    pub fn of(
        job: &Job,
        status: &JobStatus,
        counts: &PodCounts<'_>,
        pods: &[JobPod<'_>],
        now: Timestamp,
    ) -> Option<Self> {
        let recorded = [(SUCCESS_CRITERIA_MET, false), (FAILURE_TARGET, true)];
        let recorded = recorded.into_iter().find(|(kind, _)| status.is_true(kind));
        if let Some((condition, has_failed)) =
            recorded.and_then(|(kind, failed)| Some((status.condition(kind)?, failed)))
        {
            let (reason, message) = (condition.reason.clone(), condition.message.clone());
            return Some(Self { has_failed, reason, message });
        }
        by_failure_policy(job, pods)
            .or_else(|| by_limits(job, status, counts, pods, now))
            .or_else(|| by_indexes(job, counts))
            .or_else(|| by_success_policy(job, counts))
            .or_else(|| by_completions(job, counts))
    }

    /// Returns the condition that records the end before the pods have terminated.
    pub fn interim(&self, now: Timestamp) -> JobCondition {
        self.condition(if self.has_failed { FAILURE_TARGET } else { SUCCESS_CRITERIA_MET }, now)
    }

    /// Returns the condition of the finished Job.
    pub fn terminal(&self, now: Timestamp) -> JobCondition {
        self.condition(if self.has_failed { "Failed" } else { "Complete" }, now)
    }

    fn condition(&self, kind: &str, now: Timestamp) -> JobCondition {
        condition(kind, true, &self.reason, &self.message, now)
    }
}

/// Creates a condition whose last probe and last transition are `now`.
fn condition(kind: &str, is_true: bool, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    let now = Some(whole_seconds(now));
    JobCondition {
        r#type: kind.into(),
        status: if is_true { "True" } else { "False" }.into(),
        reason: reason.into(),
        message: message.into(),
        last_probe_time: now,
        last_transition_time: now,
    }
}

/// Adds or replaces a condition.
pub fn set_condition(status: &mut JobStatus, new: JobCondition) {
    let mut conditions: Vec<JobCondition> = status.conditions.iter().cloned().collect();
    match conditions.iter_mut().find(|known| known.r#type == new.r#type) {
        Some(known) => *known = new,
        None => conditions.push(new),
    }
    status.conditions = conditions.into();
}

/// Sets the condition `Suspended` to the present state. A Job that was never suspended has none. Returns whether it has
/// changed.
pub fn set_suspended(status: &mut JobStatus, is_suspended: bool, now: Timestamp) -> bool {
    if status.is_true("Suspended") == is_suspended {
        return false;
    }
    let (reason, message) =
        if is_suspended { ("JobSuspended", "Job suspended") } else { ("JobResumed", "Job resumed") };
    set_condition(status, condition("Suspended", is_suspended, reason, message, now));
    true
}

/// Returns the time until the Job exceeds `activeDeadlineSeconds`, or zero if the Job has exceeded it. Returns `None`
/// if the Job has no deadline, has not started or is suspended.
pub fn deadline_in(job: &Job, status: &JobStatus, now: Timestamp) -> Option<Duration> {
    let seconds = job.spec.active_deadline_seconds.filter(|_| !job.is_suspended())?;
    let left = SignedDuration::from_secs(seconds).saturating_sub(now.duration_since(status.start_time?));
    Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
}

fn by_failure_policy(job: &Job, pods: &[JobPod<'_>]) -> Option<Target> {
    job.spec.pod_failure_policy.as_ref()?;
    pods.iter().filter(|pod| pod.has_failed(job)).find_map(|pod| match pod.failure_effect(job) {
        FailureEffect::FailJob(message) => Some(Target::failure("PodFailurePolicy", &message)),
        FailureEffect::Count | FailureEffect::Ignore | FailureEffect::FailIndex => None,
    })
}

fn by_limits(
    job: &Job,
    status: &JobStatus,
    counts: &PodCounts<'_>,
    pods: &[JobPod<'_>],
    now: Timestamp,
) -> Option<Target> {
    if counts.failed > job.backoff_limit() || exceeds_restarts(job, pods) {
        return Some(Target::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    let message = "Job was active longer than specified deadline";
    deadline_in(job, status, now)
        .filter(Duration::is_zero)
        .map(|_| Target::failure("DeadlineExceeded", message))
}

/// Whether the kubelet has restarted failed containers too often. It does so only with the restart policy `OnFailure`.
fn exceeds_restarts(job: &Job, pods: &[JobPod<'_>]) -> bool {
    if &*job.spec.template.spec.restart_policy != "OnFailure" {
        return false;
    }
    let running = pods.iter().filter(|pod| matches!(pod.phase, "Running" | "Pending"));
    let restarts: i64 = running.map(|pod| pod.fields.restarts).sum();
    restarts > 0 && restarts >= job.backoff_limit()
}

fn by_indexes(job: &Job, counts: &PodCounts<'_>) -> Option<Target> {
    let failed = counts.failed_indexes.as_ref()?.count();
    if job.spec.max_failed_indexes.is_some_and(|most| failed > most) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Target::failure("MaxFailedIndexesExceeded", message));
    }
    let is_last = failed > 0 && failed + counts.succeeded >= i64::from(counts.completions);
    is_last.then(|| Target::failure("FailedIndexes", "Job has failed indexes"))
}

fn by_success_policy(job: &Job, counts: &PodCounts<'_>) -> Option<Target> {
    let mut rules = job.spec.success_policy.as_ref()?.rules.iter();
    let at = rules.position(|rule| {
        let count = rule.succeeded_count;
        match &rule.succeeded_indexes {
            None => counts.succeeded > 0 && count.is_some_and(|count| counts.succeeded >= count),
            Some(indexes) => {
                let wanted = Indexes::parse(indexes, counts.completions);
                let met = wanted.shared(&counts.completed);
                met > 0 && met >= count.unwrap_or(i64::MAX).min(wanted.count())
            }
        }
    })?;
    Some(Target::success("SuccessPolicy", &format!("Matched rules at index {at}")))
}

/// A Job without `completions` is complete when a pod has succeeded and no other is active.
fn by_completions(job: &Job, counts: &PodCounts<'_>) -> Option<Target> {
    let wanted = job.spec.completions.unwrap_or(1);
    let is_complete = counts.succeeded >= wanted && counts.active.is_empty();
    is_complete.then(|| Target::success("CompletionsReached", "Reached expected number of succeeded pods"))
}
