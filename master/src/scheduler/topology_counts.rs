//! Topology pair counts: for every affinity or spread term in use, the number of matching pods per node and per
//! topology value.
//!
//! The counts are updated when pods are added and removed. An index by label finds the terms that match a pod. So
//! only a new term iterates over all pods.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::node::NodeId;
use super::pod::Pod;
use crate::objects::labels::{Labels, Selector};

/// Selects pods by namespace and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSelector {
    /// Names of namespaces.
    pub namespaces: Vec<String>,
    /// Selector on namespace labels.
    pub namespace_selector: Option<Selector>,
    /// Selector on pod labels.
    pub selector: Selector,
}

/// Pods that match all selectors, grouped by a topology key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Term {
    /// A pod must match all of these selectors.
    pub pod_selectors: Vec<PodSelector>,
    /// The topology key.
    pub key: String,
    /// Whether terminating pods do not count.
    pub skips_terminating: bool,
}

/// Labels of all namespaces, by name.
pub type Namespaces = HashMap<String, Labels>;

impl Term {
    /// Creates a term with one selector.
    pub fn of(clause: PodSelector, key: &str) -> Self {
        Self { pod_selectors: vec![clause], key: key.to_owned(), skips_terminating: false }
    }

    pub fn matches(&self, pod: &Pod, namespaces: &Namespaces) -> bool {
        if self.skips_terminating && pod.spec.is_terminating {
            return false;
        }
        self.pod_selectors.iter().all(|clause| {
            let by_label = |selector: &Selector| {
                namespaces
                    .get(&pod.namespace)
                    .map_or_else(|| selector.0.is_empty(), |labels| selector.matches(labels))
            };
            (clause.namespaces.contains(&pod.namespace)
                || clause.namespace_selector.as_ref().is_some_and(by_label))
                && clause.selector.matches(&pod.spec.labels)
        })
    }

    fn has_namespace_selector(&self) -> bool {
        self.pod_selectors.iter().any(|clause| clause.namespace_selector.is_some())
    }

    fn exact_label(&self) -> Option<(&str, &str)> {
        self.pod_selectors.iter().find_map(|clause| clause.selector.exact_label())
    }
}

#[derive(Clone, Debug, Default)]
pub struct TermCounts {
    /// Matching pods per node.
    pub by_node: HashMap<NodeId, i64>,
    /// Matching pods per topology value.
    pub by_value: HashMap<String, i64>,
    /// Pods that have the term as required anti-affinity, per topology value.
    pub anti_affinity: HashMap<String, i64>,
    /// Sum of the weights of pods that have the term as affinity, per topology value.
    pub preference: HashMap<String, i64>,
    /// Whether the term was requested since the last sweep.
    is_used: bool,
}

/// All counted terms.
#[derive(Debug, Default)]
pub struct TopologyCounts {
    tallies: HashMap<Arc<Term>, TermCounts>,
    by_label: BTreeMap<String, BTreeMap<String, Vec<Arc<Term>>>>,
    /// Terms that require no specific label, so that the index cannot hold them.
    unindexed: Vec<Arc<Term>>,
    /// Number of terms that starts the next sweep.
    sweep_at: usize,
}

/// Maximum number of terms up to which none is evicted.
const MIN_KEPT: usize = 1024;

impl TopologyCounts {
    pub fn counts_of(&self, term: &Term) -> Option<&TermCounts> {
        self.tallies.get(term)
    }

    /// Marks a term as used. Returns false if the term is not counted yet.
    pub fn touch(&mut self, term: &Term) -> bool {
        self.tallies.get_mut(term).map(|counts_of| counts_of.is_used = true).is_some()
    }

    /// Evicts unused terms if there are many terms. A term is unused if no pod on a node has it, and it was not
    /// requested since the last sweep.
    pub fn evict_unused(&mut self) {
        if self.tallies.len() >= self.sweep_at.max(MIN_KEPT) {
            self.sweep();
        }
    }

    /// Starts to count a term. The caller adds the existing pods with [`Self::count`].
    pub fn insert(&mut self, term: &Arc<Term>) {
        self.tallies.insert(term.clone(), TermCounts { is_used: true, ..TermCounts::default() });
        self.index(term);
    }

    /// Adds `change` to the counts of a term.
    pub fn count(&mut self, term: &Term, node: NodeId, labels: &Labels, change: i64) {
        if let Some(counts_of) = self.tallies.get_mut(term) {
            add(&mut counts_of.by_node, &node, change);
            if let Some(value) = labels.get(&term.key) {
                add_text(&mut counts_of.by_value, value, change);
            }
        }
    }

    pub fn matching(&self, pod: &Pod, namespaces: &Namespaces) -> Vec<Arc<Term>> {
        let labelled = pod.spec.labels.iter();
        let labelled = labelled.filter_map(|(key, value)| self.by_label.get(key)?.get(value)).flatten();
        labelled.chain(&self.unindexed).filter(|term| term.matches(pod, namespaces)).cloned().collect()
    }

    /// Adds (`change` 1) or removes (-1) a pod on a node, both in the terms that match the pod and in its own
    /// terms.
    pub fn count_pod(
        &mut self,
        pod: &Pod,
        namespaces: &Namespaces,
        node: NodeId,
        labels: &Labels,
        change: i64,
    ) {
        for term in self.matching(pod, namespaces) {
            self.count(&term, node, labels, change);
        }
        for term in &pod.spec.required_anti_affinity {
            if let (Some(counts_of), Some(value)) = (self.tallies.get_mut(term), labels.get(&term.key)) {
                add_text(&mut counts_of.anti_affinity, value, change);
            }
        }
        for (weight, term) in &pod.spec.symmetric_terms {
            if let (Some(counts_of), Some(value)) = (self.tallies.get_mut(term), labels.get(&term.key)) {
                add_text(&mut counts_of.preference, value, change * weight);
            }
        }
    }

    /// Resets the counts of terms with a namespace selector, because namespace labels changed. Returns these terms.
    pub fn clear_namespace_selected(&mut self) -> Vec<Arc<Term>> {
        let concerned: Vec<Arc<Term>> =
            self.tallies.keys().filter(|term| term.has_namespace_selector()).cloned().collect();
        for term in &concerned {
            if let Some(counts_of) = self.tallies.get_mut(term) {
                counts_of.by_node.clear();
                counts_of.by_value.clear();
            }
        }
        concerned
    }

    fn index(&mut self, term: &Arc<Term>) {
        match term.exact_label() {
            Some((key, value)) => {
                let values = self.by_label.entry(key.to_owned()).or_default();
                values.entry(value.to_owned()).or_default().push(term.clone());
            }
            None => self.unindexed.push(term.clone()),
        }
    }

    /// Evicts unused terms. A term that is requested again later is counted again.
    fn sweep(&mut self) {
        self.tallies.retain(|_, counts_of| {
            let was_used = std::mem::take(&mut counts_of.is_used);
            was_used || !counts_of.anti_affinity.is_empty() || !counts_of.preference.is_empty()
        });
        self.by_label.clear();
        self.unindexed.clear();
        let kept: Vec<Arc<Term>> = self.tallies.keys().cloned().collect();
        kept.iter().for_each(|term| self.index(term));
        // The limit is less than double the number of kept terms. With double, terms that are requested only once would
        // let it grow without bound.
        self.sweep_at = kept.len() + (kept.len() / 2).max(MIN_KEPT);
    }
}

fn add(counts: &mut HashMap<NodeId, i64>, key: &NodeId, change: i64) {
    let count = counts.entry(*key).or_default();
    *count += change;
    if *count == 0 {
        counts.remove(key);
    }
}

fn add_text(counts: &mut HashMap<String, i64>, key: &str, change: i64) {
    if let Some(count) = counts.get_mut(key) {
        *count += change;
        if *count == 0 {
            counts.remove(key);
        }
    } else if change != 0 {
        counts.insert(key.to_owned(), change);
    }
}

#[cfg(test)]
mod tests {
    //! Tests of eviction.
    use super::*;

    fn term(number: usize) -> Arc<Term> {
        Arc::new(Term::of(PodSelector::default(), &number.to_string()))
    }

    #[test]
    fn repeated_terms_are_counted_once() {
        let mut terms = TopologyCounts::default();
        let live: Vec<Arc<Term>> = (0..MIN_KEPT * 3 / 2).map(term).collect();
        for round in 0..4 {
            for term in &live {
                terms.evict_unused();
                let is_known = terms.touch(term);
                assert_eq!(is_known, round > 0);
                if !is_known {
                    terms.insert(term);
                }
            }
        }
        // Terms that are requested once are evicted.
        for number in 0..MIN_KEPT * 20 {
            terms.evict_unused();
            if number % 256 == 0 {
                assert!(live.iter().all(|term| terms.touch(term)));
            }
            terms.insert(&term(MIN_KEPT * 10 + number));
        }
        assert!(terms.tallies.len() < MIN_KEPT * 6, "{}", terms.tallies.len());
    }
}
