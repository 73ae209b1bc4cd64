//! PodDisruptionBudgets: they decide which preemptions would violate one.

use std::sync::Arc;

use crate::objects::labels::Selector;
use crate::objects::workload::PodDisruptionBudget;
use crate::scheduler::pod::Pod;
use crate::scheduler::store::{Keyed, NamespacedName, Store};

/// The fields of a PodDisruptionBudget that preemption reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    key: NamespacedName,
    selector: Selector,
    allowed: i64,
    /// Pods in `status.disruptedPods`, whose disruption is already counted.
    disrupted: Vec<String>,
}

impl Budget {
    /// Parses a PodDisruptionBudget.
    pub fn of(object: PodDisruptionBudget) -> Self {
        let PodDisruptionBudget { metadata, spec, status } = object;
        Self {
            key: (metadata.namespace.into(), metadata.name.into()),
            selector: Selector::of(spec.selector.as_ref()),
            allowed: status.disruptions_allowed,
            disrupted: status.disrupted_pods.iter().map(|(name, _)| name.to_owned()).collect(),
        }
    }

    /// Whether the budget covers the pod. An empty selector covers no pod here.
    fn counts(&self, pod: &Pod) -> bool {
        self.key.0 == pod.namespace
            && !pod.spec.labels.is_empty()
            && !self.selector.0.is_empty()
            && self.selector.matches(&pod.spec.labels)
            && !self.disrupted.contains(&pod.name)
    }
}

impl Keyed for Budget {
    type Key = NamespacedName;

    fn key(&self) -> &NamespacedName {
        &self.key
    }
}

/// All PodDisruptionBudgets.
pub type Budgets = Store<Budget>;

impl Budgets {
    /// Returns for each pod, in eviction order, whether evicting it violates a budget.
    pub fn violations_of(&self, pods: &[Arc<Pod>]) -> Vec<bool> {
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
