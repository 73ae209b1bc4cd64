//! Plans the next step of a ReplicaSet: how many pods to create, or which pods to delete. Pure.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::controllers::workloads::pod_writes::{BURST, PodToDelete};
use crate::controllers::workloads::replica::{Phase, Replica};

/// The next step for the pods of a ReplicaSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    Nothing,
    /// Create this number of pods.
    Create(usize),
    /// Delete these pods.
    Delete(Vec<PodToDelete<'a>>),
}

/// Plans the step towards `wanted` replicas. `active` are the active pods of the ReplicaSet, and `related` the pods
/// of all ReplicaSets with the same owner.
pub fn plan<'a>(wanted: i64, active: &[Replica<'a>], related: &[Replica<'_>], now: Timestamp) -> Step<'a> {
    let wanted = usize::try_from(wanted).unwrap_or(0);
    if active.len() < wanted {
        return Step::Create((wanted - active.len()).min(BURST));
    }
    let surplus = (active.len() - wanted).min(BURST);
    if surplus == 0 {
        return Step::Nothing;
    }
    let mut pods = active.to_vec();
    let per_node = active_per_node(related);
    pods.sort_by_cached_key(|pod| DeletionOrder::of(pod, &per_node, now));
    Step::Delete(pods.iter().take(surplus).map(|pod| PodToDelete { name: pod.name, uid: pod.uid }).collect())
}

fn active_per_node<'a>(pods: &[Replica<'a>]) -> HashMap<&'a str, usize> {
    let mut count = HashMap::new();
    for pod in pods.iter().filter(|pod| pod.is_active()) {
        *count.entry(pod.node).or_default() += 1;
    }
    count
}

/// The order in which pods are deleted: the least useful first.
///
/// It is the stock order, except that pods of about the same age are compared by restarts before the arbitrary
/// choice by UID. This makes the order total.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DeletionOrder<'a> {
    is_scheduled: bool,
    phase: Phase,
    is_ready: bool,
    cost: i32,
    /// Minus the number of pods of the same owner on the node. Pods on nodes with more such pods are deleted first.
    spread: i64,
    ready_age: i64,
    restarts: (i64, i64),
    age: i64,
    /// The UID of the pod, for an arbitrary but stable choice.
    uid: &'a str,
}

impl<'a> DeletionOrder<'a> {
    fn of(pod: &Replica<'a>, per_node: &HashMap<&str, usize>, now: Timestamp) -> Self {
        let on_node = per_node.get(pod.node).copied().unwrap_or(0);
        let (app, sidecar) = pod.restarts;
        Self {
            is_scheduled: !pod.node.is_empty(),
            phase: pod.phase,
            is_ready: pod.is_ready,
            cost: pod.deletion_cost,
            spread: -i64::try_from(on_node).unwrap_or(i64::MAX),
            ready_age: if pod.is_ready { magnitude(pod.ready_changed, now) } else { 0 },
            restarts: (-app, -sidecar),
            age: magnitude(pod.created, now),
            uid: pod.uid,
        }
    }
}

/// Returns the binary logarithm of the nanoseconds since `since`, so that pods of about the same age are equal.
/// Returns -1 if the time is in the future or unknown.
fn magnitude(since: Option<Timestamp>, now: Timestamp) -> i64 {
    let age = since.map_or(0, |since| now.duration_since(since).as_nanos());
    u128::try_from(age).ok().and_then(u128::checked_ilog2).map_or(-1, i64::from)
}
