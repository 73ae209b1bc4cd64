//! Decides which pods of a Job to create or delete. Pure.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;

use super::backoff::Backoff;
use super::pod::{FailureEffect, JobPod};
use super::pod_counts::{PodCounts, number};
use super::target::Target;
use crate::controllers::replica_set::plan::{Step as Replicas, plan as plan_replicas};
use crate::controllers::workloads::pod_writes::BURST;
use crate::controllers::workloads::replica::Replica;
use crate::objects::Job;

/// The next step for the pods of a Job.
#[derive(Clone, Debug)]
pub enum Step<'a> {
    Nothing,
    Create(Vec<NewPod>),
    /// Delete these pods of a failed Job. They keep their finalizers, and then count as failed.
    DeleteCounted(Vec<&'a JobPod<'a>>),
    /// Remove the finalizers of these pods and delete them. They do not count.
    DeleteUncounted(Vec<&'a JobPod<'a>>),
}

/// A pod to create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewPod {
    /// The completion index, if the Job is indexed.
    pub index: Option<u32>,
    /// Failures of the index that count and that do not, if the Job has a limit for each index.
    pub earlier_failures: Option<(u32, u32)>,
}

/// Returns the step for a Job that has reached its end.
pub fn end<'a>(target: &Target, counts: &PodCounts<'a>) -> Step<'a> {
    match counts.active.clone() {
        active if active.is_empty() => Step::Nothing,
        active if target.has_failed => Step::DeleteCounted(active),
        active => Step::DeleteUncounted(active),
    }
}

/// Returns the step for a Job that has not reached its end, and the time after which failed pods can be replaced.
pub fn step<'a>(
    job: &Job,
    counts: &PodCounts<'a>,
    backoff: Backoff,
    now: Timestamp,
) -> (Step<'a>, Option<Duration>) {
    let active = number(counts.active.len());
    let wanted = if job.is_suspended() { 0 } else { wanted(job, counts) };
    let surplus = surplus(job, counts, wanted, now);
    if !surplus.is_empty() {
        return (Step::DeleteUncounted(surplus), None);
    }
    let terminating = if job.replaces_only_failed() { number(counts.terminating.len()) } else { 0 };
    let count = usize::try_from(wanted - active - terminating).unwrap_or(0).min(BURST);
    if count == 0 {
        return (Step::Nothing, None);
    }
    if !job.is_indexed() {
        let wait = backoff.remaining(now);
        return if wait.is_zero() {
            (Step::Create(vec![NewPod::default(); count]), None)
        } else {
            (Step::Nothing, Some(wait))
        };
    }
    let (new, wait) = new_indexes(job, counts, count, backoff, now);
    (if new.is_empty() { Step::Nothing } else { Step::Create(new) }, wait)
}

/// Returns the number of pods that should be active.
fn wanted(job: &Job, counts: &PodCounts<'_>) -> i64 {
    match job.spec.completions {
        // The pods of a work queue decide when the queue is empty. After the first success, no pod is added.
        None if counts.succeeded > 0 => number(counts.active.len()),
        None => job.parallelism(),
        Some(completions) => (completions - counts.succeeded).min(job.parallelism()).max(0),
    }
}

/// Returns the active pods to remove: those without the finalizer, without a valid index or with that of another pod,
/// and then the least useful ones above the wanted number. A pod without the finalizer would not be counted: the
/// controller crashed before it deleted the pod, or a user removed the finalizer.
fn surplus<'a>(job: &Job, counts: &PodCounts<'a>, wanted: i64, now: Timestamp) -> Vec<&'a JobPod<'a>> {
    let (tracked, untracked): (Vec<&JobPod<'_>>, Vec<_>) =
        counts.active.iter().copied().partition(|pod| pod.is_tracked);
    let mut to_delete: HashSet<&str> = untracked.iter().map(|pod| pod.uid()).collect();
    if job.is_indexed() {
        let mut by_index: BTreeMap<Option<u32>, Vec<Replica<'_>>> = BTreeMap::new();
        for pod in tracked {
            by_index.entry(pod.index_of(counts.completions)).or_default().push(pod.replica);
        }
        for (index, replicas) in by_index {
            let excess = if index.is_some() { replicas.len() - 1 } else { replicas.len() };
            to_delete.extend(least_useful(&replicas, excess, now));
        }
    }
    let others =
        counts.active.iter().map(|pod| pod.replica).filter(|replica| !to_delete.contains(replica.uid));
    let others: Vec<Replica<'_>> = others.collect();
    let excess = others.len().saturating_sub(usize::try_from(wanted).unwrap_or(0));
    to_delete.extend(least_useful(&others, excess, now));
    counts.active.iter().filter(|pod| to_delete.contains(pod.uid())).take(BURST).copied().collect()
}

/// Returns the UIDs of the pods that a ReplicaSet would delete first.
fn least_useful<'a>(pods: &[Replica<'a>], count: usize, now: Timestamp) -> Vec<&'a str> {
    match plan_replicas(number(pods.len().saturating_sub(count)), pods, pods, now) {
        Replicas::Delete(pods) => pods.iter().map(|pod| pod.uid).collect(),
        Replicas::Nothing | Replicas::Create(_) => Vec::new(),
    }
}

/// Returns the pods of the first indexes without one, and the time until the next index can have one.
fn new_indexes(
    job: &Job,
    counts: &PodCounts<'_>,
    count: usize,
    backoff: Backoff,
    now: Timestamp,
) -> (Vec<NewPod>, Option<Duration>) {
    let has_limit = job.spec.backoff_limit_per_index.is_some();
    let mut taken = counts.completed.with(counts.active.iter().filter_map(|pod| pod.fields.index));
    if job.replaces_only_failed() {
        taken = taken.with(counts.terminating.iter().filter_map(|pod| pod.fields.index));
    }
    if let Some(failed) = &counts.failed_indexes {
        taken = taken.union(failed);
    }
    if !has_limit {
        let wait = backoff.remaining(now);
        if !wait.is_zero() {
            return (Vec::new(), Some(wait));
        }
    }
    let (mut new, mut wait) = (Vec::new(), None);
    for index in taken.missing(counts.completions) {
        if new.len() == count {
            break;
        }
        let replaced = counts.to_replace.get(&index);
        let remaining = replaced.map_or(Duration::ZERO, |pod| Backoff::of_index(pod).remaining(now));
        if remaining.is_zero() {
            let earlier_failures = has_limit.then(|| replaced.map_or((0, 0), |pod| failures_with(job, pod)));
            new.push(NewPod { index: Some(index), earlier_failures });
        } else {
            wait = Some(wait.map_or(remaining, |wait: Duration| wait.min(remaining)));
        }
    }
    (new, wait)
}

/// Returns the failures of an index with that of its last pod.
fn failures_with(job: &Job, last: &JobPod<'_>) -> (u32, u32) {
    let (counted, ignored) = last.fields.earlier_failures;
    if last.failure_effect(job) == FailureEffect::Ignore {
        (counted, ignored.saturating_add(1))
    } else {
        (counted.saturating_add(1), ignored)
    }
}
