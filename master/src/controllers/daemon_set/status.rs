//! The status of a DaemonSet. Pure.

use std::time::Duration;

use super::eligibility::Eligibility;
use super::plan::{Input, min_ready};
use super::pods::by_node;
use crate::objects::daemon_set::DaemonSetStatus;

/// Returns the status that the DaemonSet should have. If a node has several pods, only the pod that the plan would keep
/// is counted.
pub fn status(input: Input<'_>) -> DaemonSetStatus {
    let (set, pods) = (input.set, by_node(input.pods));
    let mut status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        collision_count: set.status.collision_count,
        ..DaemonSetStatus::default()
    };
    for node in input.nodes {
        let pod = pods.get(node.name).and_then(|pods| pods.first());
        match (node.eligibility, pod) {
            (Eligibility::Run, None) => status.desired_number_scheduled += 1,
            (Eligibility::Run, Some(pod)) => {
                status.desired_number_scheduled += 1;
                status.current_number_scheduled += 1;
                status.number_ready += i64::from(pod.replica.is_ready);
                status.number_available += i64::from(pod.is_available(min_ready(set), input.now));
                status.updated_number_scheduled += i64::from(pod.is_updated(input.hash));
            }
            (Eligibility::Continue | Eligibility::Stop, Some(_)) => status.number_misscheduled += 1,
            (Eligibility::Continue | Eligibility::Stop, None) => {}
        }
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    status
}

/// Returns the time until the next pod becomes available without any event.
pub fn next_availability(input: Input<'_>) -> Option<Duration> {
    let live = input.pods.iter().filter(|pod| pod.replica.is_active());
    let left = live.filter_map(|pod| pod.replica.available_in(min_ready(input.set), input.now));
    left.filter(|left| !left.is_zero()).min()
}
