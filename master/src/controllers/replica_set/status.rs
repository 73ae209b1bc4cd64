//! The status of a ReplicaSet. Pure.

use std::time::Duration;

use jiff::Timestamp;

use crate::controllers::workloads::pod_writes::Failure;
use crate::controllers::workloads::replica::Replica;
use crate::objects::replica_set::{ReplicaSetStatus, whole_seconds};
use crate::objects::{Condition, List, ReplicaSet};

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The pods of a ReplicaSet.
#[derive(Clone, Copy, Debug)]
pub struct Pods<'a> {
    pub active: &'a [Replica<'a>],
    /// Number of pods that are being deleted. `None` if the kind does not report it.
    pub terminating: Option<usize>,
}

/// Returns how long a ready pod of the ReplicaSet must stay ready until it is available.
pub fn min_ready(set: &ReplicaSet) -> Duration {
    Duration::from_secs(u64::try_from(set.spec.min_ready_seconds).unwrap_or(0))
}

/// Returns the status that the ReplicaSet should have.
pub fn status(
    set: &ReplicaSet,
    pods: Pods<'_>,
    failure: Option<&Failure>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let count = |is_counted: &dyn Fn(&Replica<'_>) -> bool| {
        number(pods.active.iter().filter(|pod| is_counted(pod)).count())
    };
    let wanted = &set.spec.template.labels;
    let min_ready = min_ready(set);
    ReplicaSetStatus {
        replicas: number(pods.active.len()),
        fully_labeled_replicas: count(&|pod| {
            wanted.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
        }),
        ready_replicas: count(&|pod| pod.is_ready),
        available_replicas: count(&|pod| pod.is_available(min_ready, now)),
        terminating_replicas: pods.terminating.map(number),
        observed_generation: set.metadata.generation,
        conditions: conditions(&set.status.conditions, failure, now),
    }
}

/// Returns the time until the next pod becomes available without any event.
pub fn next_availability(set: &ReplicaSet, active: &[Replica<'_>], now: Timestamp) -> Option<Duration> {
    let left = active.iter().filter_map(|pod| pod.available_in(min_ready(set), now));
    left.filter(|left| !left.is_zero()).min()
}

/// Returns the conditions. The first failure is kept until a step succeeds.
fn conditions(known: &List<Condition>, failure: Option<&Failure>, now: Timestamp) -> List<Condition> {
    match (failure, known.of_type(REPLICA_FAILURE)) {
        (Some(_), Some(_)) | (None, None) => known.clone(),
        (None, Some(_)) => known.iter().filter(|one| &*one.r#type != REPLICA_FAILURE).cloned().collect(),
        (Some(failure), None) => {
            let new = Condition {
                r#type: REPLICA_FAILURE.into(),
                status: "True".into(),
                reason: failure.reason.into(),
                message: failure.message.as_str().into(),
                last_transition_time: Some(whole_seconds(now)),
                ..Condition::default()
            };
            known.iter().cloned().chain([new]).collect()
        }
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
