//! A pod as the replica of a workload: whether it is active, ready and available. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::controllers::object::Object;
use crate::objects::{OwnerReference, StringMap};

/// The fields of a pod that controllers of workloads read.
#[derive(Clone, Copy, Debug)]
pub struct Replica<'a> {
    pub name: &'a str,
    pub uid: &'a str,
    pub labels: &'a StringMap,
    /// The owner that manages the pod.
    pub controller: Option<&'a OwnerReference>,
    /// The node of the pod. Empty if the pod is not scheduled.
    pub node: &'a str,
    pub phase: Phase,
    pub is_terminating: bool,
    /// Whether the condition `Ready` is true.
    pub is_ready: bool,
    /// Time of the last change of the condition `Ready`.
    pub ready_changed: Option<Timestamp>,
    /// The annotation `controller.kubernetes.io/pod-deletion-cost`, or 0 if it is absent or not a number.
    pub deletion_cost: i32,
    /// The highest restart count of an app container, and of a sidecar.
    pub restarts: (i64, i64),
    pub created: Option<Timestamp>,
}

/// The phase of a pod, in the order in which pods are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Pending,
    Unknown,
    Running,
    /// The phase is `Succeeded` or `Failed`.
    Terminal,
}

impl Phase {
    pub fn of(phase: &str) -> Self {
        match phase {
            "Unknown" => Self::Unknown,
            "Running" => Self::Running,
            "Succeeded" | "Failed" => Self::Terminal,
            _ => Self::Pending,
        }
    }
}

impl<'a> Replica<'a> {
    /// Reads a cached pod.
    pub fn of(pod: &'a Object) -> Self {
        let fields = pod.pod();
        Self {
            name: &pod.name,
            uid: &pod.uid,
            labels: &pod.labels,
            controller: pod.controller(),
            node: &fields.node,
            phase: Phase::of(&fields.phase),
            is_terminating: pod.is_terminating,
            is_ready: fields.is_ready,
            ready_changed: fields.ready_changed,
            deletion_cost: fields.deletion_cost,
            restarts: fields.restarts,
            created: pod.creation_timestamp,
        }
    }

    /// Whether the pod has ended.
    pub fn is_terminal(&self) -> bool {
        self.phase == Phase::Terminal
    }

    /// Whether the pod counts as a replica: it has not ended and is not being deleted.
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && !self.is_terminating
    }

    /// Returns the time until the pod is available, which is zero if it is available. Returns `None` if the pod is
    /// not ready.
    pub fn available_in(&self, min_ready: Duration, now: Timestamp) -> Option<Duration> {
        if !self.is_ready {
            return None;
        }
        if min_ready.is_zero() {
            return Some(Duration::ZERO);
        }
        let ready_for = now.duration_since(self.ready_changed?);
        let left =
            SignedDuration::try_from(min_ready).unwrap_or(SignedDuration::MAX).saturating_sub(ready_for);
        Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
    }

    pub fn is_available(&self, min_ready: Duration, now: Timestamp) -> bool {
        self.available_in(min_ready, now) == Some(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_pod_is_available_after_a_time() {
        let at = |second: i64| {
            "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
        };
        let labels = StringMap::default();
        let replica = Replica {
            name: "a",
            uid: "1",
            labels: &labels,
            controller: None,
            node: "n",
            phase: Phase::of("Running"),
            is_terminating: false,
            is_ready: true,
            ready_changed: Some(at(0)),
            deletion_cost: 0,
            restarts: (0, 0),
            created: None,
        };
        let seconds = Duration::from_secs;
        assert!(replica.is_active() && replica.is_available(Duration::ZERO, at(0)));
        assert_eq!(replica.available_in(seconds(10), at(4)), Some(seconds(6)));
        assert!(!replica.is_available(seconds(10), at(9)) && replica.is_available(seconds(10), at(10)));
        assert_eq!(Replica { is_ready: false, ..replica }.available_in(Duration::ZERO, at(0)), None);
        assert!(!Replica { is_terminating: true, ..replica }.is_active());
        assert!(!Replica { phase: Phase::of("Failed"), ..replica }.is_active());
    }
}
