//! InterPodAffinity filter: required pod affinity and anti-affinity, both of the pod and of existing pods.

use std::collections::HashMap;
use std::sync::Arc;

use super::Reason;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::Node;
use crate::scheduler::pod::Pod;
use crate::scheduler::topology_counts::Term;

/// Number of pods by topology value.
type ByValue = HashMap<String, i64>;

/// Precomputed counts for the required terms that concern a pod.
#[derive(Debug)]
pub(super) struct InterPodAffinity<'a> {
    /// Required affinity terms: topology key, and the counts of matching pods.
    required_affinity: Vec<(&'a str, Option<&'a ByValue>)>,
    /// Whether no pod matches the required affinity anywhere, and the pod matches its own terms. Then any node with
    /// the topology keys fits.
    is_first_pod: bool,
    required_anti_affinity: Vec<(&'a str, &'a ByValue)>,
    anti_affinity: Vec<(Arc<Term>, &'a ByValue)>,
}

impl<'a> InterPodAffinity<'a> {
    pub(super) fn of(cluster: &'a Cluster, pod: &'a Pod) -> Self {
        let (terms, spec) = (cluster.topology_counts(), &pod.spec);
        let counts_for_term = |term: &Arc<Term>| terms.counts_of(term).map(|counts_of| &counts_of.by_value);
        let required_affinity: Vec<_> =
            spec.required_affinity.iter().map(|term| (term.key.as_str(), counts_for_term(term))).collect();
        let has_no_match = required_affinity.iter().all(|(_, found)| found.is_none_or(HashMap::is_empty));
        let is_first_pod =
            has_no_match && spec.required_affinity.iter().all(|term| term.matches(pod, cluster.namespaces()));
        let required_anti_affinity = spec
            .required_anti_affinity
            .iter()
            .filter_map(|term| Some((term.key.as_str(), counts_for_term(term)?)));
        let matching = terms.matching(pod, cluster.namespaces()).into_iter();
        let anti_affinity = matching.filter_map(|term| {
            let found = &terms.counts_of(&term)?.anti_affinity;
            (!found.is_empty()).then_some((term, found))
        });
        Self {
            required_affinity,
            is_first_pod,
            required_anti_affinity: required_anti_affinity.filter(|(_, found)| !found.is_empty()).collect(),
            anti_affinity: anti_affinity.collect(),
        }
    }

    pub(super) fn filter(&self, node: &Node) -> Option<Reason> {
        let is_there = |key: &str, found: &ByValue| {
            node.labels.get(key).is_some_and(|value| found.get(value).is_some_and(|count| *count > 0))
        };
        let is_near = |(key, found): &(&str, Option<&ByValue>)| match found {
            _ if self.is_first_pod => node.labels.contains_key(key),
            Some(found) => is_there(key, found),
            None => false,
        };
        if !self.required_affinity.iter().all(is_near) {
            return Some(Reason::PodAffinityMismatch);
        }
        if self.required_anti_affinity.iter().any(|(key, found)| is_there(key, found)) {
            return Some(Reason::PodAntiAffinityConflict);
        }
        self.anti_affinity
            .iter()
            .any(|(term, found)| is_there(&term.key, found))
            .then_some(Reason::ExistingPodAntiAffinity)
    }
}
