//! Score plugins: each rates feasible nodes from 0 to 100. They have the weights of the stock scheduler.

mod inter_pod_affinity;
mod node_resources;
mod pod_topology_spread;
#[cfg(test)]
mod tests;

use super::cluster::Cluster;
use super::config::ScoringStrategy;
use super::node::NodeId;
use super::pod::Pod;
use super::schedule_one::Scoring;

/// Maximum score of a plugin.
const MAX_SCORE: i64 = 100;

/// A score plugin. It returns one score per node, in the order of the nodes, or `None` if all scores would be
/// equal.
type ScorePlugin = fn(&Cluster, &Pod, &[NodeId]) -> Option<Vec<i64>>;

/// Score plugins and their stock weights.
const PLUGINS: &[(ScorePlugin, i64)] = &[
    (taint_toleration, 3),
    (node_affinity, 2),
    (inter_pod_affinity::scores, 2),
    (node_resources::balanced, 1),
    (image_locality, 1),
];

const POD_TOPOLOGY_SPREAD_WEIGHT: i64 = 2;
const NODE_RESOURCES_FIT_WEIGHT: i64 = 1;

/// Returns the total score of each node, in the order of the nodes.
pub fn scores(cluster: &Cluster, pod: &Pod, scoring: &Scoring<'_>, nodes: &[NodeId]) -> Vec<i64> {
    let mut total = vec![0; nodes.len()];
    let plugins = PLUGINS.iter().map(|(plugin, weight)| (plugin(cluster, pod, nodes), *weight));
    let resources_fit = match scoring.strategy {
        ScoringStrategy::LeastAllocated => node_resources::least_allocated(cluster, pod, nodes),
        ScoringStrategy::MostAllocated => node_resources::most_allocated(cluster, pod, nodes),
        ScoringStrategy::Disabled => None,
    };
    let spread = pod_topology_spread::scores(cluster, pod, scoring.default_constraints, nodes);
    for (scores, weight) in
        plugins.chain([(spread, POD_TOPOLOGY_SPREAD_WEIGHT), (resources_fit, NODE_RESOURCES_FIT_WEIGHT)])
    {
        for (sum, score) in total.iter_mut().zip(scores.into_iter().flatten()) {
            *sum += weight * score;
        }
    }
    total
}

/// Scales scores so that the highest becomes [`MAX_SCORE`]. `reversed` means that lower scores are better.
fn normalize(mut scores: Vec<i64>, reversed: bool) -> Vec<i64> {
    let largest = scores.iter().copied().max().unwrap_or_default();
    for score in &mut scores {
        let stretched = if largest == 0 { 0 } else { *score * MAX_SCORE / largest };
        *score = if reversed { MAX_SCORE - stretched } else { stretched };
    }
    scores
}

/// TaintToleration: prefers nodes with fewer untolerated PreferNoSchedule taints.
fn taint_toleration(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let tolerations = &pod.spec.tolerations;
    let mut is_any = false;
    let count = |id: &NodeId| -> i64 {
        let Some((_, node)) = cluster.node(*id) else { return 0 };
        let soft = node.taints.iter().filter(|taint| &*taint.effect == "PreferNoSchedule");
        soft.map(|taint| i64::from(!tolerations.tolerate(taint))).sum()
    };
    let counts: Vec<i64> = nodes.iter().map(count).inspect(|count| is_any |= *count > 0).collect();
    // Without such taints every node would get the same score.
    is_any.then(|| normalize(counts, true))
}

/// NodeAffinity: prefers nodes that match the preferred node affinity terms, by their weights.
fn node_affinity(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let preferred = &pod.spec.preferred_node_terms;
    if preferred.is_empty() {
        return None;
    }
    let weigh = |id: &NodeId| -> i64 {
        let Some((_, node)) = cluster.node(*id) else { return 0 };
        let matching = preferred.iter().filter(|(_, term)| term.matches(&node.name, &node.labels));
        matching.map(|(weight, _)| weight).sum()
    };
    Some(normalize(nodes.iter().map(weigh).collect(), false))
}

const MB: i64 = 1024 * 1024;
/// Size of an image in bytes below which ImageLocality scores 0, as in the stock scheduler.
const MIN_IMAGE_BYTES: i64 = 23 * MB;
/// Size per container in bytes above which ImageLocality gives the maximum score, as in the stock scheduler.
const MAX_IMAGE_BYTES: i64 = 1000 * MB;

/// ImageLocality: prefers nodes that already hold large images of the pod.
///
/// The size of an image is scaled by the share of nodes that hold it, so that an image on a single node does not attract all pods.
fn image_locality(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let all = i64::try_from(cluster.count()).unwrap_or(i64::MAX).max(1);
    let images: Vec<(&String, i64)> =
        pod.spec.images.iter().map(|image| (image, cluster.nodes_with_image(image))).collect();
    // If no node holds an image, every node would get the same score.
    if images.iter().all(|(_, holders)| *holders == 0) {
        return None;
    }
    let most = MAX_IMAGE_BYTES * i64::try_from(images.len()).unwrap_or(1);
    let score = |id: &NodeId| {
        let Some((_, node)) = cluster.node(*id) else { return 0 };
        let here = images.iter().filter_map(|(image, holders)| Some((node.images.get(*image)?, holders)));
        let sum: i64 = here.map(|(size, holders)| size.saturating_mul(*holders) / all).sum();
        MAX_SCORE * (sum.clamp(MIN_IMAGE_BYTES, most) - MIN_IMAGE_BYTES) / (most - MIN_IMAGE_BYTES)
    };
    Some(nodes.iter().map(score).collect())
}
