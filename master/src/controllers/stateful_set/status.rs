//! The status of a StatefulSet. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::plan::{Input, RevisionNames};
use crate::controllers::workloads::history::POD_REVISION_LABEL;
use crate::controllers::workloads::replica::{Phase, Replica};
use crate::objects::StatefulSet;
use crate::objects::stateful_set::StatefulSetStatus;

/// Returns how long a ready pod of the StatefulSet must stay ready until it is available.
pub fn min_ready(set: &StatefulSet) -> Duration {
    Duration::from_secs(u64::try_from(set.spec.min_ready_seconds).unwrap_or(0))
}

/// Returns the name of the revision of a pod, or an empty text if the pod has none.
pub fn revision<'a>(pod: &Replica<'a>) -> &'a str {
    pod.labels.get(POD_REVISION_LABEL).unwrap_or_default()
}

/// Whether a pod runs and is ready.
pub fn is_ready(pod: &Replica<'_>) -> bool {
    pod.phase == Phase::Running && pod.is_ready
}

/// Whether a pod runs and has been ready for long enough.
pub fn is_available(set: &StatefulSet, pod: &Replica<'_>, now: Timestamp) -> bool {
    is_ready(pod) && pod.is_available(min_ready(set), now)
}

/// Returns the status before the planned writes.
pub fn counts<'p, 'r: 'p>(
    input: &Input<'_>,
    pods: impl Iterator<Item = &'p Replica<'r>> + Clone,
) -> StatefulSetStatus {
    let Input { set, revisions: RevisionNames { current, update }, now, .. } = *input;
    let count = |is_counted: &dyn Fn(&Replica<'_>) -> bool| {
        i64::try_from(pods.clone().filter(|pod| is_counted(pod)).count()).unwrap_or(i64::MAX)
    };
    let is_of = |name: &str, pod: &Replica<'_>| !pod.is_terminating && revision(pod) == name;
    StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: count(&|_| true),
        ready_replicas: count(&is_ready),
        available_replicas: count(&|pod| is_available(set, pod, now)),
        current_replicas: count(&|pod| is_of(current, pod)),
        updated_replicas: count(&|pod| is_of(update, pod)),
        current_revision: current.into(),
        update_revision: update.into(),
        collision_count: Some(set.status.collision_count.unwrap_or(0)),
    }
}

/// Completes a rolling update: if all pods are updated and ready, the update revision becomes the current one.
pub fn complete_update(set: &StatefulSet, status: &mut StatefulSetStatus) {
    let all = [status.updated_replicas, status.ready_replicas, status.replicas];
    if set.is_rolling() && all == [set.replicas(); 3] {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
}

/// Returns the time until the next pod becomes available without any event.
pub fn next_availability(set: &StatefulSet, pods: &[Replica<'_>], now: Timestamp) -> Option<Duration> {
    let left =
        pods.iter().filter(|pod| is_ready(pod)).filter_map(|pod| pod.available_in(min_ready(set), now));
    left.filter(|left| !left.is_zero()).min()
}
