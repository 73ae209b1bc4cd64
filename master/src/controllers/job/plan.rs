//! Plans the next step of a Job: which pods to create, delete and count, and the status. Pure.
//!
//! A pod is counted in three writes. The first adds its UID to `status.uncountedTerminatedPods`, the second removes its
//! finalizer, and the third moves the UID into a counter. Each can be repeated, so a crash between any two loses
//! nothing and counts nothing twice.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;

use super::backoff::Backoff;
use super::indexes::Indexes;
use super::pod::{FailureEffect, JobPod};
use super::pod_counts::{PodCounts, number};
use super::scaling::{self, Step};
use super::target::{Target, deadline_in, set_condition, set_suspended};
use crate::objects::Job;
use crate::objects::job::{JobStatus, UncountedPods};
use crate::objects::replica_set::whole_seconds;

/// Maximum number of UIDs in the status, as in stock Kubernetes. It limits the size of the status.
const MAX_UNCOUNTED: usize = 500;

/// The input of the plan.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub job: &'a Job,
    /// All pods of the Job.
    pub pods: &'a [JobPod<'a>],
    /// Failures that were seen before. `None` if the controller has just started.
    pub backoff: Option<Backoff>,
    pub now: Timestamp,
}

/// The next step of a Job. The controller carries it out in the order of the fields.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The status to write first, if it has changed.
    pub status: JobStatus,
    /// The event about a suspended or resumed Job, after the status is written.
    pub suspension: Option<Suspension>,
    /// Pods whose finalizers are removed after the status is written.
    pub release: Vec<&'a JobPod<'a>>,
    /// The end of the Job, if it has reached one. See [`Plan::conclude`].
    pub target: Option<Target>,
    /// Pods to create or delete.
    pub step: Step<'a>,
    /// The failures to remember when the status is written.
    pub backoff: Backoff,
    /// Time after which the Job is due without any event.
    pub requeue_after: Option<Duration>,
    /// Whether more pods must be counted in a further step.
    is_partial: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    Suspended,
    Resumed,
}

/// Plans the next step.
pub fn plan(input: Input<'_>) -> Plan<'_> {
    let Input { job, pods, now, .. } = input;
    let tracked: HashSet<&str> = pods.iter().filter(|pod| pod.is_tracked).map(JobPod::uid).collect();
    let is_terminating = job.metadata.is_terminating();
    let mut status = job.status.clone();
    count_released(&mut status, &tracked);
    if status.start_time.is_none() && !job.is_suspended() {
        status.start_time = Some(whole_seconds(now));
    }
    let mut suspension = None;
    let is_resumed = status.is_true("Suspended") && !job.is_suspended();
    if is_resumed && !is_terminating && !Target::is_recorded(&status) {
        set_suspended(&mut status, false, now);
        suspension = Some(Suspension::Resumed);
        // `activeDeadlineSeconds` starts again when the Job is resumed.
        status.start_time = Some(whole_seconds(now));
    }
    let counts = PodCounts::of(job, &status, pods);
    let backoff = match input.backoff {
        Some(known) => known.after(&counts.new_succeeded, &counts.new_failed),
        None => Backoff::of_pods(job, pods),
    };
    let target = Target::of(job, &status, &counts, pods, now);
    if target.is_none() && !is_terminating && job.is_suspended() && set_suspended(&mut status, true, now) {
        suspension = Some(Suspension::Suspended);
    }
    let (step, wait) = match &target {
        _ if is_terminating => (Step::Nothing, None),
        Some(target) => (scaling::end(target, &counts), None),
        None => scaling::step(job, &counts, backoff, now),
    };
    let (release, is_partial) = count(job, &mut status, &counts, pods, target.as_ref());
    status.active = number(counts.active.len());
    status.ready = Some(counts.ready);
    status.terminating = Some(number(counts.terminating.len()));
    let deadline = deadline_in(job, &status, now).filter(|_| target.is_none());
    if let Some(target) = &target {
        let interim = target.interim(now);
        if status.condition(&interim.r#type).is_none() {
            set_condition(&mut status, interim);
        }
    }
    let backoff = match input.backoff {
        // Pods that keep their finalizer are counted in a later step.
        Some(known) => {
            let released: HashSet<&str> = release.iter().map(|pod| pod.uid()).collect();
            let (mut succeeded, mut failed) = (counts.new_succeeded, counts.new_failed);
            succeeded.retain(|pod| released.contains(pod.uid()));
            failed.retain(|pod| released.contains(pod.uid()));
            known.after(&succeeded, &failed)
        }
        None => backoff,
    };
    let requeue_after = deadline.into_iter().chain(wait).min();
    Plan { status, suspension, release, target, step, backoff, requeue_after, is_partial }
}

impl Plan<'_> {
    /// Returns the status after finalizers were removed. `tracked` are the UIDs of pods that still have the finalizer.
    ///
    /// The Job is finished when all pods are counted, none is active and none is terminating.
    pub fn conclude(&self, tracked: &HashSet<&str>, now: Timestamp) -> JobStatus {
        let mut status = self.status.clone();
        count_released(&mut status, tracked);
        let has_pods = status.active > 0 || status.terminating != Some(0);
        let is_counted = !self.is_partial
            && tracked.is_empty()
            && status.uncounted_terminated_pods == UncountedPods::default();
        if let Some(target) = self.target.as_ref().filter(|_| is_counted && !has_pods) {
            let terminal = target.terminal(now);
            if !target.has_failed {
                status.completion_time = terminal.last_transition_time;
            }
            set_condition(&mut status, terminal);
        }
        status
    }
}

/// Moves pods that have no finalizer any more into the counters.
fn count_released(status: &mut JobStatus, tracked: &HashSet<&str>) {
    let uncounted = &mut status.uncounted_terminated_pods;
    for (pods, counter) in
        [(&mut uncounted.succeeded, &mut status.succeeded), (&mut uncounted.failed, &mut status.failed)]
    {
        let before = pods.len();
        if pods.iter().any(|uid| !tracked.contains(&**uid)) {
            *pods = pods.iter().filter(|uid| tracked.contains(&***uid)).cloned().collect();
        }
        *counter += number(before - pods.len());
    }
}

/// Adds pods that have ended to the status. Returns the pods whose finalizers can then be removed, and whether more
/// pods wait for the next step.
fn count<'a>(
    job: &Job,
    status: &mut JobStatus,
    counts: &PodCounts<'a>,
    pods: &'a [JobPod<'a>],
    target: Option<&Target>,
) -> (Vec<&'a JobPod<'a>>, bool) {
    let has_failed_target = target.is_some_and(|target| target.has_failed);
    let uncounted = &status.uncounted_terminated_pods;
    let (mut succeeded, mut failed) = (uncounted.succeeded.to_vec(), uncounted.failed.to_vec());
    let known: HashSet<&str> =
        uncounted.succeeded.iter().chain(&uncounted.failed).map(|uid| &**uid).collect();
    let (mut release, mut is_partial, mut new_indexes) = (Vec::new(), false, Vec::new());
    let mut sorted: Vec<&JobPod<'_>> = pods.iter().filter(|pod| pod.is_tracked).collect();
    sorted.sort_by_key(|pod| (pod.fields.index, pod.replica.name));
    for pod in sorted {
        if !is_releasable(job, counts, pod, target) {
            continue;
        }
        // A pod that the status holds is always released: it makes room for others.
        if known.contains(pod.uid()) {
            release.push(pod);
            continue;
        }
        if succeeded.len() + failed.len() + new_indexes.len() >= MAX_UNCOUNTED {
            is_partial = true;
            continue;
        }
        release.push(pod);
        let index = pod.index_of(counts.completions);
        if job.is_indexed() && index.is_none() {
            continue;
        }
        if pod.has_succeeded() {
            match index {
                Some(index) => new_indexes.push(index),
                None => succeeded.push(pod.uid().into()),
            }
        } else if (pod.has_failed(job) || has_failed_target)
            && pod.failure_effect(job) != FailureEffect::Ignore
        {
            failed.push(pod.uid().into());
        }
    }
    if job.is_indexed() {
        let known = Indexes::parse(&status.completed_indexes, counts.completions);
        let completed = known.with(new_indexes);
        status.succeeded = completed.count();
        status.completed_indexes = completed.to_string().into();
        status.failed_indexes = counts.failed_indexes.as_ref().map(|indexes| indexes.to_string().into());
    }
    status.uncounted_terminated_pods = UncountedPods { succeeded: succeeded.into(), failed: failed.into() };
    (release, is_partial)
}

/// Whether the finalizer of a pod can be removed. A pod that must be counted is counted first.
fn is_releasable(job: &Job, counts: &PodCounts<'_>, pod: &JobPod<'_>, target: Option<&Target>) -> bool {
    if job.metadata.is_terminating() || pod.has_succeeded() {
        return true;
    }
    // The step deletes active pods first.
    if target.is_some() {
        return !pod.is_active();
    }
    pod.has_failed(job) && !counts.awaits_replacement(pod)
}
