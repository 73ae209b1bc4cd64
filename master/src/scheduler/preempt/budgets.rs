//! Who may be ended without breaking a PodDisruptionBudget.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::controllers::Json;
use crate::scheduler::labels::Selector;
use crate::scheduler::pod::Pod;
use crate::scheduler::read::{at, text_at};

/// What is read of a budget.
pub const FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.resourceVersion",
    "spec.selector",
    "status.disruptionsAllowed",
    "status.disruptedPods",
];

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Namespace and name.
    pub key: (String, String),
    selector: Selector,
    allowed: i64,
    /// Names of pods whose end is counted already.
    disrupted: Vec<String>,
}

impl Budget {
    /// Reads one.
    pub fn of(object: &Json) -> Self {
        let disrupted = at(object, "status.disruptedPods").and_then(Value::as_object);
        Self {
            key: (text_at(object, "metadata.namespace"), text_at(object, "metadata.name")),
            selector: Selector::of(at(object, "spec.selector")),
            allowed: at(object, "status.disruptionsAllowed").and_then(Value::as_i64).unwrap_or_default(),
            disrupted: disrupted.into_iter().flatten().map(|(name, _)| name.clone()).collect(),
        }
    }

    /// Whether the end of that pod counts; an empty selector is nobody's.
    fn counts(&self, pod: &Pod) -> bool {
        self.key.0 == pod.namespace
            && !pod.wants.labels.is_empty()
            && !self.selector.0.is_empty()
            && self.selector.selects(&pod.wants.labels)
            && !self.disrupted.contains(&pod.name)
    }
}

/// All budgets there are.
#[derive(Debug, Default)]
pub struct Budgets(HashMap<(String, String), Budget>);

impl Budgets {
    /// Takes one in as it is now.
    pub fn put(&mut self, budget: Budget) {
        self.0.insert(budget.key.clone(), budget);
    }

    /// Takes one out.
    pub fn remove(&mut self, budget: &Budget) {
        self.0.remove(&budget.key);
    }

    /// Takes in all there are.
    pub fn replace(&mut self, budgets: Vec<Budget>) {
        self.0.clear();
        budgets.into_iter().for_each(|budget| self.put(budget));
    }

    /// For each of these pods, which end in their order, whether that breaks a budget.
    pub fn break_with(&self, pods: &[Arc<Pod>]) -> Vec<bool> {
        let mut left: Vec<(&Budget, i64)> = self.0.values().map(|budget| (budget, budget.allowed)).collect();
        let mut breaks = |pod: &Arc<Pod>| {
            let mut is_broken = false;
            for (_, left) in left.iter_mut().filter(|(budget, _)| budget.counts(pod)) {
                *left -= 1;
                is_broken |= *left < 0;
            }
            is_broken
        };
        pods.iter().map(&mut breaks).collect()
    }
}
