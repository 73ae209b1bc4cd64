//! Who may be ended without breaking a PodDisruptionBudget.

use std::sync::Arc;

use serde_json::Value;

use crate::controllers::Json;
use crate::scheduler::keyed::{Keyed, Place, Table};
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
    key: Place,
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

impl Keyed for Budget {
    type Key = Place;

    fn key(&self) -> &Place {
        &self.key
    }
}

/// All budgets there are.
pub type Budgets = Table<Budget>;

impl Budgets {
    /// For each of these pods, which end in their order, whether that breaks a budget.
    pub fn break_with(&self, pods: &[Arc<Pod>]) -> Vec<bool> {
        let mut left: Vec<(&Budget, i64)> = self.all().map(|budget| (budget, budget.allowed)).collect();
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
