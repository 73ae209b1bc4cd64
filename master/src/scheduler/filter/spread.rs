//! Pods of a kind are spread over the values of a label: no value has more by so many than the one that has least.

use std::collections::HashMap;

use super::{Why, lets_through};
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::Node;
use crate::scheduler::pod::{Pod, Spread};
use crate::scheduler::taints::unborne;

/// What a pod demands, and how it stands.
#[derive(Debug)]
pub(super) struct Skews<'a>(Vec<Skew<'a>>);

#[derive(Debug)]
struct Skew<'a> {
    spread: &'a Spread,
    /// How many there are by value, of the nodes that count.
    counts: HashMap<&'a str, i64>,
    least: i64,
}

impl<'a> Skews<'a> {
    pub(super) fn of(cluster: &'a Cluster, pod: &'a Pod) -> Self {
        let hard: Vec<&Spread> = pod.wants.spread.iter().filter(|spread| spread.is_hard).collect();
        let has_all = |node: &Node| hard.iter().all(|spread| node.labels.contains_key(&spread.term.key));
        let skew = |spread: &'a Spread| {
            let by_node = cluster.terms().tally(&spread.term).map(|tally| &tally.by_node);
            let mut counts = HashMap::new();
            for (id, _, node) in cluster.nodes() {
                if has_all(node)
                    && counts_for(spread, pod, node)
                    && let Some(value) = node.labels.get(&spread.term.key)
                {
                    let here = by_node.and_then(|by_node| by_node.get(&id)).copied().unwrap_or_default();
                    *counts.entry(value.as_str()).or_default() += here;
                }
            }
            let is_few = i64::try_from(counts.len()).is_ok_and(|domains| domains < spread.min_domains);
            let least = counts.values().copied().min().unwrap_or(i64::MAX);
            Skew { spread, least: if is_few { 0 } else { least }, counts }
        };
        Self(hard.iter().copied().map(skew).collect())
    }

    pub(super) fn refuses(&self, node: &Node) -> Option<Why> {
        self.0.iter().find_map(|Skew { spread, counts, least }| {
            let Some(value) = node.labels.get(&spread.term.key) else { return Some(Why::SkewLabel) };
            let here = counts.get(value.as_str()).copied().unwrap_or_default();
            let skew = (here + i64::from(spread.selects_itself)).saturating_sub(*least);
            (skew > spread.max_skew).then_some(Why::Skew)
        })
    }
}

/// Whether pods on that node count.
pub fn counts_for(spread: &Spread, pod: &Pod, node: &Node) -> bool {
    (!spread.honors_affinity || lets_through(pod, node))
        && (!spread.honors_taints || unborne(&pod.wants.tolerations, &node.taints).is_none())
}
