//! PodTopologySpread score: prefers nodes with fewer matching pods, according to soft constraints.

use std::collections::HashMap;

use super::MAX_SCORE;
use super::node_resources::truncate;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::filter::is_node_counted;
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::{Pod, SpreadConstraint};

/// The label of the host name. Each node has its own value, so the count of the node itself is used.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// A soft constraint with its pod counts.
struct SoftConstraint<'a> {
    spread: &'a SpreadConstraint,
    counts: HashMap<&'a str, i64>,
    by_node: Option<&'a HashMap<NodeId, i64>>,
    weight: f64,
}

/// Scores nodes by the soft constraints of the pod, or by the default constraints. A node without the topology keys
/// gets 0, except for default constraints.
pub(super) fn scores(
    cluster: &Cluster,
    pod: &Pod,
    default_constraints: &[SpreadConstraint],
    nodes: &[NodeId],
) -> Option<Vec<i64>> {
    let is_own = !pod.spec.topology_spread.is_empty();
    let spread = if is_own { &pod.spec.topology_spread } else { default_constraints };
    let soft: Vec<&SpreadConstraint> = spread.iter().filter(|spread| !spread.is_hard).collect();
    if soft.is_empty() {
        return None;
    }
    let has_all = |id: &NodeId| {
        let node = cluster.node(*id).map(|(_, node)| node);
        node.is_some_and(|node| {
            !is_own || soft.iter().all(|spread| node.labels.contains_key(&spread.term.key))
        })
    };
    let counted: Vec<bool> = nodes.iter().map(has_all).collect();
    let how_many = counted.iter().filter(|is_counted| **is_counted).count();
    let soft_constraints: Vec<SoftConstraint<'_>> =
        soft.iter().map(|spread| soft_constraint(cluster, pod, spread, nodes, how_many)).collect();
    let raw = |(id, is_counted): (&NodeId, &bool)| -> Option<i64> {
        let (_, node) = cluster.node(*id).filter(|_| *is_counted)?;
        let mut sum = 0.0;
        for soft_constraint in &soft_constraints {
            let Some(value) = node.labels.get(&soft_constraint.spread.term.key) else { continue };
            let here = match soft_constraint.by_node {
                Some(by_node) => by_node.get(id).copied(),
                None => soft_constraint.counts.get(value).copied(),
            };
            sum += here.unwrap_or_default() as f64 * soft_constraint.weight
                + (soft_constraint.spread.max_skew - 1) as f64;
        }
        Some(truncate(sum.round()))
    };
    let raw: Vec<Option<i64>> = nodes.iter().zip(&counted).map(raw).collect();
    let most = raw.iter().flatten().copied().max().unwrap_or_default();
    let least = raw.iter().flatten().copied().min().unwrap_or_default();
    let turned = |score: Option<i64>| match score {
        None => 0,
        Some(_) if most == 0 => MAX_SCORE,
        Some(score) => MAX_SCORE * (most + least - score) / most,
    };
    Some(raw.into_iter().map(turned).collect())
}

fn soft_constraint<'a>(
    cluster: &'a Cluster,
    pod: &Pod,
    spread: &'a SpreadConstraint,
    nodes: &[NodeId],
    counted: usize,
) -> SoftConstraint<'a> {
    let by_node = cluster.topology_counts().counts_of(&spread.term).map(|counts_of| &counts_of.by_node);
    let key = &spread.term.key;
    let mut counts = HashMap::new();
    if key == HOSTNAME {
        let weight = (counted as f64 + 2.0).ln();
        return SoftConstraint { spread, counts, by_node, weight };
    }
    for id in nodes {
        if let Some(value) = cluster.node(*id).and_then(|(_, node)| node.labels.get(key)) {
            counts.entry(value).or_insert(0);
        }
    }
    let weight = (counts.len() as f64 + 2.0).ln();
    for (id, here) in by_node.into_iter().flatten() {
        let Some((_, node)) = cluster.node(*id).filter(|(_, node)| is_node_counted(spread, pod, node)) else {
            continue;
        };
        if let Some(count) = node.labels.get(key).and_then(|value| counts.get_mut(value)) {
            *count += here;
        }
    }
    SoftConstraint { spread, counts, by_node: None, weight }
}
