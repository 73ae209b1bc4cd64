//! What has several pods of a kind: services that select them, and the sets that made them. Pods that say nothing of how they are
//! spread are spread by that, as with the stock scheduler.

use std::collections::HashMap;
use std::sync::Arc;

use super::labels::{Labels, Requirement, Selector};
use super::pod::{Pod, Spread};
use super::read::{at, labels, text_at};
use super::state::Part;
use super::terms::{Clause, Term};
use crate::controllers::Json;

/// What is read of each of them.
pub const FIELDS: &[&str] =
    &["metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion", "spec.selector"];

/// Over the values of which labels pods are spread, and by how many one may rather not have more: the stock system defaults.
const DEFAULTS: [(&str, i64); 2] = [("kubernetes.io/hostname", 3), ("topology.kubernetes.io/zone", 5)];

/// Something that selects pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Selecting {
    namespace: String,
    name: String,
    uid: String,
    selector: Selector,
}

impl Selecting {
    /// Reads one; the selector is a map of labels, or one of the newer sort.
    pub fn of(object: &Json) -> Self {
        let given = at(object, "spec.selector");
        let has = |field: &str| given.and_then(|of| of.get(field)).is_some_and(|of| !of.is_string());
        let is_new = has("matchLabels") || has("matchExpressions");
        let selector = if is_new { Selector::of(given) } else { exactly(&labels(given)) };
        Self {
            namespace: text_at(object, "metadata.namespace"),
            name: text_at(object, "metadata.name"),
            uid: text_at(object, "metadata.uid"),
            selector,
        }
    }
}

fn exactly(labels: &Labels) -> Selector {
    Selector(labels.iter().map(|(key, value)| Requirement::In(key.clone(), vec![value.clone()])).collect())
}

/// All of them.
#[derive(Debug, Default)]
pub struct Owners {
    /// Services by namespace.
    services: HashMap<String, Vec<Selecting>>,
    /// Sets by what they are and their identity.
    sets: HashMap<Part, HashMap<String, Selecting>>,
}

impl Owners {
    /// Takes in all of a part.
    pub fn replace(&mut self, part: Part, all: Vec<Selecting>) {
        match part {
            Part::Services => self.services.clear(),
            _ => drop(self.sets.remove(&part)),
        }
        all.into_iter().for_each(|one| self.put(part, one));
    }

    /// Takes one in as it is now.
    pub fn put(&mut self, part: Part, one: Selecting) {
        self.remove(part, &one);
        match part {
            Part::Services => self.services.entry(one.namespace.clone()).or_default().push(one),
            _ => drop(self.sets.entry(part).or_default().insert(one.uid.clone(), one)),
        }
    }

    /// Takes one out.
    pub fn remove(&mut self, part: Part, one: &Selecting) {
        match part {
            Part::Services => {
                if let Some(services) = self.services.get_mut(&one.namespace) {
                    services.retain(|other| other.name != one.name);
                }
            }
            _ => {
                if let Some(sets) = self.sets.get_mut(&part) {
                    sets.remove(&one.uid);
                }
            }
        }
    }

    /// How a pod is spread that says nothing of it itself: not at all where nothing selects it.
    pub fn spread(&self, pod: &Pod) -> Vec<Spread> {
        let selector = self.selector(pod);
        if !pod.wants.spread.is_empty() || selector.0.is_empty() {
            return Vec::new();
        }
        let clause = Clause { namespaces: vec![pod.namespace.clone()], in_namespaces: None, selector };
        let term = |key| Arc::new(Term { skips_ending: true, ..Term::of(clause.clone(), key) });
        DEFAULTS.map(|(key, max_skew)| Spread::rather(term(key), max_skew)).into()
    }

    /// What all services that select the pod ask of it together, and the set that made it.
    fn selector(&self, pod: &Pod) -> Selector {
        let own = &pod.wants.labels;
        let services = self.services.get(&pod.namespace).into_iter().flatten();
        let services = services.map(|service| &service.selector);
        let services = services.filter(|selector| !selector.0.is_empty() && selector.selects(own));
        let sets = self.sets.values().filter_map(|sets| sets.get(&pod.owner)).map(|set| &set.selector);
        let mut all: Vec<Requirement> = Vec::new();
        for requirement in services.chain(sets).flat_map(|selector| &selector.0) {
            if !all.contains(requirement) {
                all.push(requirement.clone());
            }
        }
        // Pods of one set share one term, in whatever order things came.
        all.sort();
        Selector(all)
    }
}

#[cfg(test)]
mod tests;
