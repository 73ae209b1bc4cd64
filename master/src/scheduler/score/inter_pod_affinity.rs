//! InterPodAffinity score: the preferred affinity of the pod, and the affinity of existing pods towards the pod.

use std::collections::HashMap;
use std::sync::Arc;

use super::MAX_SCORE;
use super::node_resources::truncate;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::Pod;
use crate::scheduler::topology_counts::Term;

/// Counts per topology value that add to the score, and their weight.
struct WeightedCounts<'a> {
    term: Arc<Term>,
    counts: &'a HashMap<String, i64>,
    weight: i64,
}

pub(super) fn scores(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let terms = cluster.topology_counts();
    let mut terms_with_weight = Vec::new();
    for (weight, term) in &pod.spec.preferred_affinity {
        if let Some(counts_of) = terms.counts_of(term).filter(|counts_of| !counts_of.by_value.is_empty()) {
            terms_with_weight.push(WeightedCounts {
                term: term.clone(),
                counts: &counts_of.by_value,
                weight: *weight,
            });
        }
    }
    for term in terms.matching(pod, cluster.namespaces()) {
        if let Some(counts_of) = terms.counts_of(&term).filter(|counts_of| !counts_of.preference.is_empty()) {
            terms_with_weight.push(WeightedCounts { term, counts: &counts_of.preference, weight: 1 });
        }
    }
    if terms_with_weight.is_empty() {
        return None;
    }
    let score_of = |id: &NodeId| -> i64 {
        let Some((_, node)) = cluster.node(*id) else { return 0 };
        let of = |score_of: &WeightedCounts<'_>| {
            let count = node.labels.get(&score_of.term.key).and_then(|value| score_of.counts.get(value));
            count.map_or(0, |count| count * score_of.weight)
        };
        terms_with_weight.iter().map(of).sum()
    };
    let raw: Vec<i64> = nodes.iter().map(score_of).collect();
    let (least, most) = (raw.iter().min()?, raw.iter().max()?);
    let (least, range) = (*least, most - least);
    let score = |raw: i64| {
        if range == 0 { 0 } else { truncate(MAX_SCORE as f64 * (raw - least) as f64 / range as f64) }
    };
    Some(raw.into_iter().map(score).collect())
}
