//! Counts the pods of a Job: active, succeeded and failed ones, and indexes. Pure.

use std::collections::{HashMap, HashSet};

use super::indexes::Indexes;
use super::pod::{FailureEffect, JobPod};
use crate::objects::Job;
use crate::objects::job::JobStatus;

/// The pods of a Job, and what they mean for it.
#[derive(Debug)]
pub struct PodCounts<'a> {
    /// Number of completions of an Indexed Job; 0 for other Jobs.
    pub completions: u32,
    pub active: Vec<&'a JobPod<'a>>,
    /// Number of active pods that are ready.
    pub ready: i64,
    /// Pods that are being deleted and have not ended.
    pub terminating: Vec<&'a JobPod<'a>>,
    /// Pods that have succeeded and are not in the status.
    pub new_succeeded: Vec<&'a JobPod<'a>>,
    /// Pods that have failed and are not in the status.
    pub new_failed: Vec<&'a JobPod<'a>>,
    /// Number of successes, those that are not in the status included.
    pub succeeded: i64,
    /// Number of failures that count, those that are not in the status included.
    pub failed: i64,
    /// Completed indexes, those that are not in the status included.
    pub completed: Indexes,
    /// Failed indexes, if the Job has a limit for each index.
    pub failed_indexes: Option<Indexes>,
    /// The last failed pod of each index that waits for a replacement. It is not counted before, because the
    /// replacement takes the number of failures from it.
    pub to_replace: HashMap<u32, &'a JobPod<'a>>,
}

impl<'a> PodCounts<'a> {
    /// Counts pods. `status` is the status of the Job, without pods that are counted already.
    pub fn of(job: &Job, status: &JobStatus, pods: &'a [JobPod<'a>]) -> Self {
        let completions = if job.is_indexed() { index_limit(job) } else { 0 };
        let uncounted = &status.uncounted_terminated_pods;
        let known: HashSet<&str> =
            uncounted.succeeded.iter().chain(&uncounted.failed).map(|uid| &**uid).collect();
        let is_valid = |pod: &JobPod<'_>| !job.is_indexed() || pod.index_of(completions).is_some();
        let new = || pods.iter().filter(|pod| pod.is_tracked && !known.contains(pod.uid()) && is_valid(pod));
        let new_succeeded: Vec<&JobPod<'_>> = new().filter(|pod| pod.has_succeeded()).collect();
        let new_failed: Vec<&JobPod<'_>> = new().filter(|pod| pod.has_failed(job)).collect();
        let active: Vec<&JobPod<'_>> = pods.iter().filter(|pod| pod.is_active()).collect();
        let counted_failures =
            new_failed.iter().filter(|pod| pod.failure_effect(job) != FailureEffect::Ignore).count();
        let mut counts = Self {
            completions,
            ready: number(active.iter().filter(|pod| pod.replica.is_ready).count()),
            terminating: pods.iter().filter(|pod| pod.is_terminating()).collect(),
            succeeded: status.succeeded + number(new_succeeded.len() + uncounted.succeeded.len()),
            failed: status.failed + number(counted_failures + uncounted.failed.len()),
            active,
            new_succeeded,
            new_failed,
            completed: Indexes::default(),
            failed_indexes: None,
            to_replace: HashMap::new(),
        };
        if job.is_indexed() {
            counts.count_indexes(job, status);
        }
        counts
    }

    fn count_indexes(&mut self, job: &Job, status: &JobStatus) {
        let limit = self.completions;
        let indexes = self.new_succeeded.iter().filter_map(|pod| pod.index_of(limit));
        self.completed = Indexes::parse(&status.completed_indexes, limit).with(indexes);
        self.succeeded = self.completed.count();
        let Some(tolerated) = job.spec.backoff_limit_per_index else { return };
        let known = Indexes::parse(status.failed_indexes.as_deref().unwrap_or_default(), limit);
        let has_failed = |pod: &&&JobPod<'_>| match pod.failure_effect(job) {
            FailureEffect::FailIndex => true,
            FailureEffect::Ignore => false,
            FailureEffect::Count | FailureEffect::FailJob(_) => {
                i64::from(pod.fields.earlier_failures.0) >= tolerated
            }
        };
        let failed =
            known.with(self.new_failed.iter().filter(has_failed).filter_map(|pod| pod.index_of(limit)));
        let active = self.active.iter().filter_map(|pod| pod.index_of(limit));
        let settled = self.completed.union(&failed).with(active);
        for pod in &self.new_failed {
            if let Some(index) = pod.index_of(limit).filter(|index| !settled.contains(*index)) {
                let order = |pod: &JobPod<'_>| {
                    let (counted, ignored) = pod.fields.earlier_failures;
                    (counted.saturating_add(ignored), pod.finished())
                };
                let last = self.to_replace.entry(index).or_insert(pod);
                if order(pod) > order(last) {
                    *last = pod;
                }
            }
        }
        self.failed_indexes = Some(failed);
    }

    /// Whether the pod waits for a replacement, so that it keeps its finalizer.
    pub fn awaits_replacement(&self, pod: &JobPod<'_>) -> bool {
        let waiting = pod.index_of(self.completions).and_then(|index| self.to_replace.get(&index));
        waiting.is_some_and(|waiting| waiting.uid() == pod.uid())
    }
}

/// Returns the number of completions of an Indexed Job. The API server requires it.
fn index_limit(job: &Job) -> u32 {
    let completions = job.spec.completions.unwrap_or(0);
    u32::try_from(completions.max(0)).unwrap_or(u32::MAX)
}

/// Converts a count for the status.
pub fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
