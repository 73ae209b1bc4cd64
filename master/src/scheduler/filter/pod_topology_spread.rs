//! PodTopologySpread filter: hard topology spread constraints.

use std::collections::HashMap;

use super::{Reason, matches_node_affinity};
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::{Node, NodeId};
use crate::scheduler::pod::{Pod, SpreadConstraint};

/// The hard constraints of a pod with their current counts.
#[derive(Debug)]
pub(super) struct PodTopologySpread<'a>(Vec<ConstraintCounts<'a>>);

#[derive(Debug)]
struct ConstraintCounts<'a> {
    spread: &'a SpreadConstraint,
    /// Matching pods per topology value, on nodes that count for the constraint.
    counts: HashMap<&'a str, i64>,
    least: i64,
}

/// Topology pair counts of a pod's hard constraints, taken before a preemption dry run changes the pods of one node.
#[derive(Debug)]
pub struct TopologyPairCounts(Vec<PairCounts>);

#[derive(Debug)]
struct PairCounts {
    counts: HashMap<String, i64>,
    by_node: HashMap<NodeId, i64>,
    is_below_min_domains: bool,
    /// The topology value with the fewest pods, and its count.
    least: Option<(String, i64)>,
    /// The lowest count of the other topology values.
    second: i64,
}

impl TopologyPairCounts {
    /// Computes the counts for a pod. The topology counts of the cluster must already include the terms of the pod.
    pub fn of(cluster: &Cluster, pod: &Pod) -> Self {
        let sums = |ConstraintCounts { spread, counts, .. }: ConstraintCounts<'_>| {
            let least = counts.iter().min_by_key(|(_, count)| **count);
            let least = least.map(|(value, count)| ((*value).to_owned(), *count));
            let others =
                counts.iter().filter(|(value, _)| least.as_ref().is_some_and(|(least, _)| least != **value));
            let counts_of = cluster.topology_counts().counts_of(&spread.term);
            PairCounts {
                is_below_min_domains: is_below_min_domains(spread, counts.len()),
                second: others.map(|(_, count)| *count).min().unwrap_or(i64::MAX),
                least,
                by_node: counts_of.map(|counts_of| counts_of.by_node.clone()).unwrap_or_default(),
                counts: counts.into_iter().map(|(value, count)| (value.to_owned(), count)).collect(),
            }
        };
        Self(PodTopologySpread::of(cluster, pod).0.into_iter().map(sums).collect())
    }
}

fn is_below_min_domains(spread: &SpreadConstraint, domains: usize) -> bool {
    i64::try_from(domains).is_ok_and(|domains| domains < spread.min_domains)
}

fn hard_constraints(pod: &Pod) -> Vec<&SpreadConstraint> {
    pod.spec.topology_spread.iter().filter(|spread| spread.is_hard).collect()
}

fn has_all_keys(hard_constraints: &[&SpreadConstraint], node: &Node) -> bool {
    hard_constraints.iter().all(|spread| node.labels.contains_key(&spread.term.key))
}

impl<'a> PodTopologySpread<'a> {
    pub(super) fn of(cluster: &'a Cluster, pod: &'a Pod) -> Self {
        let hard_constraints = hard_constraints(pod);
        let skew = |spread: &'a SpreadConstraint| {
            let by_node =
                cluster.topology_counts().counts_of(&spread.term).map(|counts_of| &counts_of.by_node);
            let mut counts = HashMap::new();
            for (id, _, node) in cluster.nodes() {
                if has_all_keys(&hard_constraints, node)
                    && is_node_counted(spread, pod, node)
                    && let Some(value) = node.labels.get(&spread.term.key)
                {
                    let here = by_node.and_then(|by_node| by_node.get(&id)).copied().unwrap_or_default();
                    *counts.entry(value).or_default() += here;
                }
            }
            let least = counts.values().copied().min().unwrap_or(i64::MAX);
            ConstraintCounts {
                spread,
                least: if is_below_min_domains(spread, counts.len()) { 0 } else { least },
                counts,
            }
        };
        Self(hard_constraints.iter().copied().map(skew).collect())
    }

    /// Returns the constraints for one node whose pods have changed since `pair_counts` was computed.
    pub(super) fn on(
        cluster: &'a Cluster,
        pod: &'a Pod,
        id: NodeId,
        pair_counts: &TopologyPairCounts,
    ) -> Self {
        let Some((_, node)) = cluster.node(id) else { return Self(Vec::new()) };
        let hard_constraints = hard_constraints(pod);
        let skew = |(spread, sums): (&&'a SpreadConstraint, &PairCounts)| {
            let spread: &'a SpreadConstraint = spread;
            let Some(value) = node.labels.get(&spread.term.key) else {
                return ConstraintCounts { spread, counts: HashMap::new(), least: 0 };
            };
            let mut here = sums.counts.get(value).copied().unwrap_or_default();
            let mut least = sums.least.as_ref().map_or(i64::MAX, |(_, least)| *least);
            if has_all_keys(&hard_constraints, node) && is_node_counted(spread, pod, node) {
                let now = cluster
                    .topology_counts()
                    .counts_of(&spread.term)
                    .and_then(|counts_of| counts_of.by_node.get(&id));
                let before = sums.by_node.get(&id);
                here += now.copied().unwrap_or_default() - before.copied().unwrap_or_default();
                if sums.least.as_ref().is_some_and(|(least, _)| least == value) {
                    least = sums.second;
                }
                least = least.min(here);
            }
            let counts = HashMap::from([(value, here)]);
            ConstraintCounts { spread, counts, least: if sums.is_below_min_domains { 0 } else { least } }
        };
        Self(hard_constraints.iter().zip(&pair_counts.0).map(skew).collect())
    }

    pub(super) fn filter(&self, node: &Node) -> Option<Reason> {
        self.0.iter().find_map(|ConstraintCounts { spread, counts, least }| {
            let Some(value) = node.labels.get(&spread.term.key) else {
                return Some(Reason::MissingTopologyLabel);
            };
            let here = counts.get(value).copied().unwrap_or_default();
            let skew = (here + i64::from(spread.selects_itself)).saturating_sub(*least);
            (skew > spread.max_skew).then_some(Reason::SkewExceeded)
        })
    }
}

/// Whether pods on the node count for the constraint, according to its node affinity and node taints policies.
pub fn is_node_counted(spread: &SpreadConstraint, pod: &Pod, node: &Node) -> bool {
    (!spread.honors_affinity || matches_node_affinity(pod, node))
        && (!spread.honors_taints || pod.spec.tolerations.first_untolerated(&node.taints).is_none())
}
