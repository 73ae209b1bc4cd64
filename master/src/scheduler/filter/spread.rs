//! Pods of a kind are spread over the values of a label: no value has more by so many than the one that has least.

use std::collections::HashMap;

use super::{Why, lets_through};
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::{Node, NodeId};
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

/// How pods stand that count for what a pod demands, before some of one node are thought away or others there.
#[derive(Debug)]
pub struct Stand(Vec<Sums>);

#[derive(Debug)]
struct Sums {
    counts: HashMap<String, i64>,
    by_node: HashMap<NodeId, i64>,
    is_few: bool,
    /// The value that has least, and what it has.
    least: Option<(String, i64)>,
    /// The least that another value has.
    second: i64,
}

impl Stand {
    /// For that pod, whose terms are counted in the cluster.
    pub fn of(cluster: &Cluster, pod: &Pod) -> Self {
        let sums = |Skew { spread, counts, .. }: Skew<'_>| {
            let least = counts.iter().min_by_key(|(_, count)| **count);
            let least = least.map(|(value, count)| ((*value).to_owned(), *count));
            let others =
                counts.iter().filter(|(value, _)| least.as_ref().is_some_and(|(least, _)| least != **value));
            let tally = cluster.terms().tally(&spread.term);
            Sums {
                is_few: is_few(spread, counts.len()),
                second: others.map(|(_, count)| *count).min().unwrap_or(i64::MAX),
                least,
                by_node: tally.map(|tally| tally.by_node.clone()).unwrap_or_default(),
                counts: counts.into_iter().map(|(value, count)| (value.to_owned(), count)).collect(),
            }
        };
        Self(Skews::of(cluster, pod).0.into_iter().map(sums).collect())
    }
}

fn is_few(spread: &Spread, domains: usize) -> bool {
    i64::try_from(domains).is_ok_and(|domains| domains < spread.min_domains)
}

fn hard(pod: &Pod) -> Vec<&Spread> {
    pod.wants.spread.iter().filter(|spread| spread.is_hard).collect()
}

fn has_all(hard: &[&Spread], node: &Node) -> bool {
    hard.iter().all(|spread| node.labels.contains_key(&spread.term.key))
}

impl<'a> Skews<'a> {
    pub(super) fn of(cluster: &'a Cluster, pod: &'a Pod) -> Self {
        let hard = hard(pod);
        let skew = |spread: &'a Spread| {
            let by_node = cluster.terms().tally(&spread.term).map(|tally| &tally.by_node);
            let mut counts = HashMap::new();
            for (id, _, node) in cluster.nodes() {
                if has_all(&hard, node)
                    && counts_for(spread, pod, node)
                    && let Some(value) = node.labels.get(&spread.term.key)
                {
                    let here = by_node.and_then(|by_node| by_node.get(&id)).copied().unwrap_or_default();
                    *counts.entry(value.as_str()).or_default() += here;
                }
            }
            let least = counts.values().copied().min().unwrap_or(i64::MAX);
            Skew { spread, least: if is_few(spread, counts.len()) { 0 } else { least }, counts }
        };
        Self(hard.iter().copied().map(skew).collect())
    }

    /// The same for one node alone, whose pods are other ones than when the others were counted.
    pub(super) fn on(cluster: &'a Cluster, pod: &'a Pod, id: NodeId, stand: &Stand) -> Self {
        let Some((_, node)) = cluster.node(id) else { return Self(Vec::new()) };
        let hard = hard(pod);
        let skew = |(spread, sums): (&&'a Spread, &Sums)| {
            let spread: &'a Spread = spread;
            let Some(value) = node.labels.get(&spread.term.key) else {
                return Skew { spread, counts: HashMap::new(), least: 0 };
            };
            let mut here = sums.counts.get(value).copied().unwrap_or_default();
            let mut least = sums.least.as_ref().map_or(i64::MAX, |(_, least)| *least);
            if has_all(&hard, node) && counts_for(spread, pod, node) {
                let now = cluster.terms().tally(&spread.term).and_then(|tally| tally.by_node.get(&id));
                let before = sums.by_node.get(&id);
                here += now.copied().unwrap_or_default() - before.copied().unwrap_or_default();
                if sums.least.as_ref().is_some_and(|(least, _)| least == value) {
                    least = sums.second;
                }
                least = least.min(here);
            }
            let counts = HashMap::from([(value.as_str(), here)]);
            Skew { spread, counts, least: if sums.is_few { 0 } else { least } }
        };
        Self(hard.iter().zip(&stand.0).map(skew).collect())
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
