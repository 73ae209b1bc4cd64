//! Rather where more is left, and where what is taken of processor and memory is in balance.

use super::MOST;
use crate::scheduler::amounts::Amounts;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::Pod;

/// The share that is left of processor and memory, on average.
pub(super) fn least_allocated(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    Some(shares(cluster, pod, nodes, |has, taken| (has - taken).max(0)))
}

/// The share that is taken of processor and memory, on average.
pub(super) fn most_allocated(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    Some(shares(cluster, pod, nodes, |has, taken| taken.min(has)))
}

/// The mean share of what `counts` makes of what a node has and what would be taken of it.
fn shares(cluster: &Cluster, pod: &Pod, nodes: &[NodeId], counts: fn(i64, i64) -> i64) -> Vec<i64> {
    let score = |id: &NodeId| {
        let Some((slot, node)) = cluster.node(*id) else { return 0 };
        let (has, used, asked) = (&node.allocatable, &slot.scored, &pod.wants.scored);
        let parts =
            [(has.cpu_milli, used.cpu_milli + asked.cpu_milli), (has.memory, used.memory + asked.memory)];
        let (mut sum, mut count) = (0, 0);
        for (has, taken) in parts.into_iter().filter(|(has, _)| *has > 0) {
            let part = counts(has, taken);
            sum += part.checked_mul(MOST).map_or_else(|| part / (has / MOST), |parts| parts / has);
            count += 1;
        }
        if count == 0 { 0 } else { sum / count }
    };
    nodes.iter().map(score).collect()
}

/// How near the shares of processor and memory that are taken are to each other.
pub(super) fn balanced(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let asked = &pod.wants.requests;
    if *asked == Amounts::default() {
        return None;
    }
    let score = |id: &NodeId| {
        let Some((slot, node)) = cluster.node(*id) else { return 0 };
        let (has, used) = (&node.allocatable, &slot.used);
        if has.cpu_milli == 0 || has.memory == 0 {
            return MOST;
        }
        let cpu = share(used.cpu_milli + asked.cpu_milli, has.cpu_milli);
        let memory = share(used.memory + asked.memory, has.memory);
        let apart = (cpu - memory).abs() / 2.0;
        whole((1.0 - apart) * MOST as f64)
    };
    Some(nodes.iter().map(score).collect())
}

fn share(taken: i64, has: i64) -> f64 {
    (taken as f64 / has as f64).min(1.0)
}

/// Without its fraction.
pub(super) fn whole(score: f64) -> i64 {
    score as i64
}
