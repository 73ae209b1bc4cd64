//! NodeResourcesFit and NodeResourcesBalancedAllocation scores. Both rate CPU and memory.

use super::MAX_SCORE;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::Pod;
use crate::scheduler::resource::Resource;

/// LeastAllocated: scores the mean free share of CPU and memory.
pub(super) fn least_allocated(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    Some(shares(cluster, pod, nodes, |has, taken| (has - taken).max(0)))
}

/// MostAllocated: scores the mean used share of CPU and memory.
pub(super) fn most_allocated(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    Some(shares(cluster, pod, nodes, |has, taken| taken.min(has)))
}

/// Returns the mean of `counts(allocatable, requested)` over CPU and memory, as a share of the allocatable amount.
fn shares(cluster: &Cluster, pod: &Pod, nodes: &[NodeId], counts: fn(i64, i64) -> i64) -> Vec<i64> {
    let score = |id: &NodeId| {
        let Some((node_info, node)) = cluster.node(*id) else { return 0 };
        let (has, used, pod_requests) =
            (&node.allocatable, &node_info.non_zero_requested, &pod.spec.non_zero_requested);
        let parts = [
            (has.cpu_milli, used.cpu_milli + pod_requests.cpu_milli),
            (has.memory, used.memory + pod_requests.memory),
        ];
        let (mut sum, mut count) = (0, 0);
        for (has, taken) in parts.into_iter().filter(|(has, _)| *has > 0) {
            let part = counts(has, taken);
            sum += part.checked_mul(MAX_SCORE).map_or_else(|| part / (has / MAX_SCORE), |parts| parts / has);
            count += 1;
        }
        if count == 0 { 0 } else { sum / count }
    };
    nodes.iter().map(score).collect()
}

/// NodeResourcesBalancedAllocation: scores how close the used shares of CPU and memory are.
pub(super) fn balanced(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let pod_requests = &pod.spec.requests;
    if *pod_requests == Resource::default() {
        return None;
    }
    let score = |id: &NodeId| {
        let Some((node_info, node)) = cluster.node(*id) else { return 0 };
        let (has, used) = (&node.allocatable, &node_info.requested);
        if has.cpu_milli == 0 || has.memory == 0 {
            return MAX_SCORE;
        }
        let cpu = share(used.cpu_milli + pod_requests.cpu_milli, has.cpu_milli);
        let memory = share(used.memory + pod_requests.memory, has.memory);
        let required_anti_affinity = (cpu - memory).abs() / 2.0;
        truncate((1.0 - required_anti_affinity) * MAX_SCORE as f64)
    };
    Some(nodes.iter().map(score).collect())
}

fn share(taken: i64, has: i64) -> f64 {
    (taken as f64 / has as f64).min(1.0)
}

/// Converts a score to an integer, without its fraction.
pub(super) fn truncate(score: f64) -> i64 {
    score as i64
}
