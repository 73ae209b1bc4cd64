//! The delay before failed pods of a Job are replaced. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::pod::JobPod;
use crate::objects::Job;

/// Delay after the first failure, as in stock Kubernetes. It doubles with each further failure.
pub const INITIAL: Duration = Duration::from_secs(10);
/// Maximum delay, as in stock Kubernetes.
pub const MAX: Duration = Duration::from_secs(360);

/// The failures of pods since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    pub failures: u32,
    pub last_failure: Option<Timestamp>,
}

impl Backoff {
    /// Rebuilds the record of a Job from its pods, for a controller that has just started.
    ///
    /// Deleted pods are not counted, so the delay may be shorter than before.
    pub fn of_pods(job: &Job, pods: &[JobPod<'_>]) -> Self {
        let failed = |pod: &&JobPod<'_>| pod.phase == "Failed" || (pod.is_tracked && pod.has_failed(job));
        let failed: Vec<&JobPod<'_>> = pods.iter().filter(failed).collect();
        let succeeded: Vec<&JobPod<'_>> = pods.iter().filter(|pod| pod.has_succeeded()).collect();
        Self::default().after(&succeeded, &failed)
    }

    /// Returns the record with pods that have ended since.
    #[must_use]
    pub fn after(self, succeeded: &[&JobPod<'_>], failed: &[&JobPod<'_>]) -> Self {
        let last_success = succeeded.iter().filter_map(|pod| pod.finished()).max();
        let known = if succeeded.is_empty() { self } else { Self::default() };
        let times = failed.iter().map(|pod| pod.finished());
        let times: Vec<Option<Timestamp>> =
            times.filter(|time| last_success.is_none() || *time > last_success).collect();
        Self {
            failures: known.failures.saturating_add(u32::try_from(times.len()).unwrap_or(u32::MAX)),
            last_failure: known.last_failure.max(times.into_iter().flatten().max()),
        }
    }

    /// Returns the record of an index whose last pod has failed.
    pub fn of_index(last: &JobPod<'_>) -> Self {
        let (counted, ignored) = last.fields.earlier_failures;
        Self { failures: counted.saturating_add(ignored).saturating_add(1), last_failure: last.finished() }
    }

    /// Returns the time until failed pods may be replaced.
    pub fn remaining(&self, now: Timestamp) -> Duration {
        let (Some(last), Some(doublings)) = (self.last_failure, self.failures.checked_sub(1)) else {
            return Duration::ZERO;
        };
        let delay = INITIAL.saturating_mul(2_u32.saturating_pow(doublings)).min(MAX);
        // After a clock jump backwards, the failure may be in the future.
        let elapsed = Duration::try_from(now.duration_since(last)).unwrap_or(Duration::ZERO);
        delay.saturating_sub(elapsed)
    }
}
