//! Services and workload controllers whose selectors match pods. A pod that they select gets the default topology
//! spread constraints if it has none, as in the stock scheduler.

use std::collections::HashMap;
use std::sync::Arc;

use super::pod::{Pod, SpreadConstraint};
use super::state::InformerKind;
use super::topology_counts::{PodSelector, Term};
use crate::objects::labels::{Labels, Requirement, Selector};
use crate::objects::workload::PodSelecting;
use crate::objects::{LabelSelector, ObjectMeta};

/// Topology keys and `maxSkew` of the stock system default constraints.
const DEFAULTS: [(&str, i64); 2] = [("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5)];

/// An object with a pod selector: a Service, ReplicationController, ReplicaSet or StatefulSet.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectorSource {
    namespace: String,
    name: String,
    uid: String,
    selector: Selector,
}

impl SelectorSource {
    /// Parses a Service or ReplicationController.
    pub fn of_labels(object: PodSelecting<Labels>) -> Self {
        Self::with(object.metadata, Selector::equal(&object.spec.selector))
    }

    /// Parses a ReplicaSet or StatefulSet.
    pub fn of_selector(object: PodSelecting<LabelSelector>) -> Self {
        Self::with(object.metadata, Selector::of(Some(&object.spec.selector)))
    }

    fn with(metadata: ObjectMeta, selector: Selector) -> Self {
        Self {
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            selector,
        }
    }
}

/// All objects with pod selectors.
#[derive(Debug, Default)]
pub struct SelectorSources {
    /// Services by namespace.
    services: HashMap<String, Vec<SelectorSource>>,
    /// Controllers by kind and UID.
    sets: HashMap<InformerKind, HashMap<String, SelectorSource>>,
}

impl SelectorSources {
    /// Replaces all objects of a kind.
    pub fn replace(&mut self, informer: InformerKind, all: Vec<SelectorSource>) {
        match informer {
            InformerKind::Services => self.services.clear(),
            _ => drop(self.sets.remove(&informer)),
        }
        all.into_iter().for_each(|one| self.put(informer, one));
    }

    /// Adds or updates an object.
    pub fn put(&mut self, informer: InformerKind, one: SelectorSource) {
        self.remove(informer, &one);
        match informer {
            InformerKind::Services => self.services.entry(one.namespace.clone()).or_default().push(one),
            _ => drop(self.sets.entry(informer).or_default().insert(one.uid.clone(), one)),
        }
    }

    /// Removes an object.
    pub fn remove(&mut self, informer: InformerKind, one: &SelectorSource) {
        match informer {
            InformerKind::Services => {
                if let Some(services) = self.services.get_mut(&one.namespace) {
                    services.retain(|other| other.name != one.name);
                }
            }
            _ => {
                if let Some(sets) = self.sets.get_mut(&informer) {
                    sets.remove(&one.uid);
                }
            }
        }
    }

    /// Returns the default constraints for a pod. Returns none if the pod has constraints of its own, or no object
    /// selects it.
    pub fn spread(&self, pod: &Pod) -> Vec<SpreadConstraint> {
        let selector = self.selector(pod);
        if !pod.spec.topology_spread.is_empty() || selector.0.is_empty() {
            return Vec::new();
        }
        let clause =
            PodSelector { namespaces: vec![pod.namespace.clone()], namespace_selector: None, selector };
        let term = |key| Arc::new(Term { skips_terminating: true, ..Term::of(clause.clone(), key) });
        DEFAULTS.map(|(key, max_skew)| SpreadConstraint::soft(term(key), max_skew)).into()
    }

    /// Returns the combined selector of the services that select the pod, and of its owner.
    fn selector(&self, pod: &Pod) -> Selector {
        let own = &pod.spec.labels;
        let services = self.services.get(&pod.namespace).into_iter().flatten();
        let services = services.map(|service| &service.selector);
        let services = services.filter(|selector| !selector.0.is_empty() && selector.matches(own));
        let sets = self.sets.values().filter_map(|sets| sets.get(&pod.owner)).map(|set| &set.selector);
        let mut all: Vec<Requirement> = Vec::new();
        for requirement in services.chain(sets).flat_map(|selector| &selector.0) {
            if !all.contains(requirement) {
                all.push(requirement.clone());
            }
        }
        // Pods of one controller share one term, whatever the order of the events.
        all.sort();
        Selector(all)
    }
}

#[cfg(test)]
mod tests;
