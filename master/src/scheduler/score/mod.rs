//! Which of the nodes that may have a pod is best for it: one file a view, each from 0 to 100, weighed as the stock scheduler does.

mod images;
mod node_affinity;
mod pod_affinity;
mod resources;
mod spread;
mod taints;
#[cfg(test)]
mod tests;

use super::cluster::Cluster;
use super::node::NodeId;
use super::pod::Pod;

/// The best that a view gives.
const MOST: i64 = 100;

/// One view: the score of each of these nodes, in their order; nothing where it has no opinion.
type View = fn(&Cluster, &Pod, &[NodeId]) -> Option<Vec<i64>>;

/// The views with the weights that they have in the stock scheduler.
const VIEWS: &[(View, i64)] = &[
    (taints::scores, 3),
    (node_affinity::scores, 2),
    (spread::scores, 2),
    (pod_affinity::scores, 2),
    (resources::least_allocated, 1),
    (resources::balanced, 1),
    (images::scores, 1),
];

/// The score of each of these nodes, in their order.
pub fn scores(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Vec<i64> {
    let mut total = vec![0; nodes.len()];
    for (view, weight) in VIEWS {
        let Some(scores) = view(cluster, pod, nodes) else { continue };
        for (sum, score) in total.iter_mut().zip(scores) {
            *sum += weight * score;
        }
    }
    total
}

/// Stretches scores so that the largest is the best; turned around where less is better.
fn stretch(mut scores: Vec<i64>, less_is_better: bool) -> Vec<i64> {
    let largest = scores.iter().copied().max().unwrap_or_default();
    for score in &mut scores {
        let stretched = if largest == 0 { 0 } else { *score * MOST / largest };
        *score = if less_is_better { MOST - stretched } else { stretched };
    }
    scores
}
