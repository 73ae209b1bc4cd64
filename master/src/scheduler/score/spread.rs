//! Rather where fewer of its like are, for pods that would be spread and need not.

use std::collections::HashMap;

use super::MOST;
use super::resources::whole;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::filter::counts_for;
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::{Pod, Spread};

/// A label that every node has another value of: there its own count is taken, and no sum over nodes.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// How one wish stands.
struct Wish<'a> {
    spread: &'a Spread,
    counts: HashMap<&'a str, i64>,
    by_node: Option<&'a HashMap<NodeId, i64>>,
    weight: f64,
}

/// How a pod is spread that says nothing of it is a wish of nobody's: nodes without one of its labels are not left out.
pub(super) fn scores(cluster: &Cluster, pod: &Pod, usual: &[Spread], nodes: &[NodeId]) -> Option<Vec<i64>> {
    let is_own = !pod.wants.spread.is_empty();
    let spread = if is_own { &pod.wants.spread } else { usual };
    let soft: Vec<&Spread> = spread.iter().filter(|spread| !spread.is_hard).collect();
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
    let wishes: Vec<Wish<'_>> =
        soft.iter().map(|spread| wish(cluster, pod, spread, nodes, how_many)).collect();
    let raw = |(id, is_counted): (&NodeId, &bool)| -> Option<i64> {
        let (_, node) = cluster.node(*id).filter(|_| *is_counted)?;
        let mut sum = 0.0;
        for wish in &wishes {
            let Some(value) = node.labels.get(&wish.spread.term.key) else { continue };
            let here = match wish.by_node {
                Some(by_node) => by_node.get(id).copied(),
                None => wish.counts.get(value.as_str()).copied(),
            };
            sum += here.unwrap_or_default() as f64 * wish.weight + (wish.spread.max_skew - 1) as f64;
        }
        Some(whole(sum.round()))
    };
    let raw: Vec<Option<i64>> = nodes.iter().zip(&counted).map(raw).collect();
    let most = raw.iter().flatten().copied().max().unwrap_or_default();
    let least = raw.iter().flatten().copied().min().unwrap_or_default();
    let turned = |score: Option<i64>| match score {
        None => 0,
        Some(_) if most == 0 => MOST,
        Some(score) => MOST * (most + least - score) / most,
    };
    Some(raw.into_iter().map(turned).collect())
}

fn wish<'a>(
    cluster: &'a Cluster,
    pod: &Pod,
    spread: &'a Spread,
    nodes: &[NodeId],
    counted: usize,
) -> Wish<'a> {
    let by_node = cluster.terms().tally(&spread.term).map(|tally| &tally.by_node);
    let key = &spread.term.key;
    let mut counts = HashMap::new();
    if key == HOSTNAME {
        let weight = (counted as f64 + 2.0).ln();
        return Wish { spread, counts, by_node, weight };
    }
    for id in nodes {
        if let Some(value) = cluster.node(*id).and_then(|(_, node)| node.labels.get(key)) {
            counts.entry(value.as_str()).or_insert(0);
        }
    }
    let weight = (counts.len() as f64 + 2.0).ln();
    for (id, here) in by_node.into_iter().flatten() {
        let Some((_, node)) = cluster.node(*id).filter(|(_, node)| counts_for(spread, pod, node)) else {
            continue;
        };
        if let Some(count) = node.labels.get(key).and_then(|value| counts.get_mut(value.as_str())) {
            *count += here;
        }
    }
    Wish { spread, counts, by_node: None, weight }
}
