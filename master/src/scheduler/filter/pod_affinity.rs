//! Pods that must be near each other are, and those that must not be are not, whoever of them says so.

use std::collections::HashMap;
use std::sync::Arc;

use super::Why;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::Node;
use crate::scheduler::pod::Pod;
use crate::scheduler::terms::Term;

/// How many, by value of a label.
type ByValue = HashMap<String, i64>;

/// Whom a pod must be near to and apart from, and where those are.
#[derive(Debug)]
pub(super) struct Neighbours<'a> {
    /// By label, who must be near.
    near: Vec<(&'a str, Option<&'a ByValue>)>,
    /// Nobody is near yet anywhere, and the pod is one whom it wants near: it is the first.
    is_first: bool,
    apart: Vec<(&'a str, &'a ByValue)>,
    repelling: Vec<(Arc<Term>, &'a ByValue)>,
}

impl<'a> Neighbours<'a> {
    pub(super) fn of(cluster: &'a Cluster, pod: &'a Pod) -> Self {
        let (terms, wants) = (cluster.terms(), &pod.wants);
        let known = |term: &Arc<Term>| terms.tally(term).map(|tally| &tally.by_value);
        let near: Vec<_> = wants.near.iter().map(|term| (term.key.as_str(), known(term))).collect();
        let is_nobody = near.iter().all(|(_, found)| found.is_none_or(HashMap::is_empty));
        let is_first = is_nobody && wants.near.iter().all(|term| term.means(pod, cluster.namespaces()));
        let apart = wants.apart.iter().filter_map(|term| Some((term.key.as_str(), known(term)?)));
        let meaning = terms.meaning(pod, cluster.namespaces()).into_iter();
        let repelling = meaning.filter_map(|term| {
            let found = &terms.tally(&term)?.repelling;
            (!found.is_empty()).then_some((term, found))
        });
        Self {
            near,
            is_first,
            apart: apart.filter(|(_, found)| !found.is_empty()).collect(),
            repelling: repelling.collect(),
        }
    }

    pub(super) fn refuses(&self, node: &Node) -> Option<Why> {
        let is_there = |key: &str, found: &ByValue| {
            node.labels.get(key).is_some_and(|value| found.get(value).is_some_and(|count| *count > 0))
        };
        let is_near = |(key, found): &(&str, Option<&ByValue>)| match found {
            _ if self.is_first => node.labels.contains_key(*key),
            Some(found) => is_there(key, found),
            None => false,
        };
        if !self.near.iter().all(is_near) {
            return Some(Why::NotNear);
        }
        if self.apart.iter().any(|(key, found)| is_there(key, found)) {
            return Some(Why::NotApart);
        }
        self.repelling.iter().any(|(term, found)| is_there(&term.key, found)).then_some(Why::Repelled)
    }
}
