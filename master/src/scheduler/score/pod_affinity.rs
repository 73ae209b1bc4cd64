//! Rather near those that the pod is drawn to, and those that are drawn to it; away from the others.

use std::collections::HashMap;
use std::sync::Arc;

use super::MOST;
use super::resources::whole;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::Pod;
use crate::scheduler::terms::Term;

/// What pulls: counts by the values of a label, and how much each of them counts.
struct Pull<'a> {
    term: Arc<Term>,
    counts: &'a HashMap<String, i64>,
    weight: i64,
}

pub(super) fn scores(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let terms = cluster.terms();
    let mut pulls = Vec::new();
    for (weight, term) in &pod.wants.drawn {
        if let Some(tally) = terms.tally(term).filter(|tally| !tally.by_value.is_empty()) {
            pulls.push(Pull { term: term.clone(), counts: &tally.by_value, weight: *weight });
        }
    }
    for term in terms.meaning(pod, cluster.namespaces()) {
        if let Some(tally) = terms.tally(&term).filter(|tally| !tally.drawing.is_empty()) {
            pulls.push(Pull { term, counts: &tally.drawing, weight: 1 });
        }
    }
    if pulls.is_empty() {
        return None;
    }
    let pull = |id: &NodeId| -> i64 {
        let Some((_, node)) = cluster.node(*id) else { return 0 };
        let of = |pull: &Pull<'_>| {
            let count = node.labels.get(&pull.term.key).and_then(|value| pull.counts.get(value));
            count.map_or(0, |count| count * pull.weight)
        };
        pulls.iter().map(of).sum()
    };
    let pulled: Vec<i64> = nodes.iter().map(pull).collect();
    let (least, most) = (pulled.iter().min()?, pulled.iter().max()?);
    let (least, range) = (*least, most - least);
    let score = |pulled: i64| {
        if range == 0 { 0 } else { whole(MOST as f64 * (pulled - least) as f64 / range as f64) }
    };
    Some(pulled.into_iter().map(score).collect())
}
