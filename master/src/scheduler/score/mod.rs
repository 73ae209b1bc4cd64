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
use super::config::Strategy;
use super::node::NodeId;
use super::place::Manner;
use super::pod::Pod;

/// The best that a view gives.
const MOST: i64 = 100;

/// One view: the score of each of these nodes, in their order; nothing where it has no opinion.
type View = fn(&Cluster, &Pod, &[NodeId]) -> Option<Vec<i64>>;

/// The views with the weights that they have in the stock scheduler.
const VIEWS: &[(View, i64)] = &[
    (taints::scores, 3),
    (node_affinity::scores, 2),
    (pod_affinity::scores, 2),
    (resources::balanced, 1),
    (images::scores, 1),
];

/// How much it counts that pods are spread.
const SPREAD_WEIGHT: i64 = 2;
/// How much it counts what is taken of a node.
const ROOM_WEIGHT: i64 = 1;

/// The score of each of these nodes, in their order.
pub fn scores(cluster: &Cluster, pod: &Pod, manner: &Manner<'_>, nodes: &[NodeId]) -> Vec<i64> {
    let mut total = vec![0; nodes.len()];
    let views = VIEWS.iter().map(|(view, weight)| (view(cluster, pod, nodes), *weight));
    let room = match manner.strategy {
        Strategy::Least => resources::least_allocated(cluster, pod, nodes),
        Strategy::Most => resources::most_allocated(cluster, pod, nodes),
        Strategy::Neither => None,
    };
    let spread = spread::scores(cluster, pod, manner.usual, nodes);
    for (scores, weight) in views.chain([(spread, SPREAD_WEIGHT), (room, ROOM_WEIGHT)]) {
        for (sum, score) in total.iter_mut().zip(scores.into_iter().flatten()) {
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
