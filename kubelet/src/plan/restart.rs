//! Restart policy and restart back-off of containers.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, Pod};

use super::{is_sidecar, spec};
use crate::observed::Timestamp;

/// Parameters of the restart back-off. The defaults are those of the stock kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    /// First delay.
    pub initial: Duration,
    /// Maximum delay.
    pub max: Duration,
    /// How long a container must run to reset the back-off.
    pub reset_after: Duration,
}

impl Default for BackOff {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(10),
            max: Duration::from_secs(300),
            reset_after: Duration::from_secs(600),
        }
    }
}

impl BackOff {
    /// The delay after a run. `carried` is its back-off, `ran` its duration.
    pub fn wait(&self, carried: Duration, ran: Duration) -> Duration {
        if ran >= self.reset_after { Duration::ZERO } else { carried.min(self.max) }
    }

    /// The back-off of the next run, after a restart that waited for `waited`.
    pub fn next(&self, waited: Duration) -> Duration {
        if waited.is_zero() { self.initial.min(self.max) } else { (waited * 2).clamp(self.initial, self.max) }
    }
}

/// Whether a container restarts after an exit code. Its restart rules decide, otherwise its own policy, otherwise
/// the pod's policy.
pub(super) fn should_restart(pod: &Pod, container: &Container, is_init: bool, code: i32) -> bool {
    if container.restart_policy_rules.iter().flatten().any(|rule| matches(rule, code)) {
        return true;
    }
    if is_init && is_sidecar(container) {
        return true;
    }
    let pod_policy = spec(pod).restart_policy.as_deref().unwrap_or("Always");
    match container.restart_policy.as_deref().unwrap_or(pod_policy) {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => !is_init || code != 0,
    }
}

fn matches(rule: &ContainerRestartRule, code: i32) -> bool {
    let Some(codes) = &rule.exit_codes else { return false };
    let listed = codes.values.iter().flatten().any(|value| *value == code);
    match codes.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

/// The time between two timestamps; zero if they are in reverse order.
pub(super) fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}
