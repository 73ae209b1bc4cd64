//! Objects that select pods: Services, workloads and PodDisruptionBudgets.

use serde::Deserialize;

use super::meta::{Condition, ObjectMeta};
use super::selector::LabelSelector;
use super::values::{IntOrString, List, StringMap};

/// An object that selects pods. `Selector` is a label map in Services and ReplicationControllers, and a label selector
/// in the workloads of `apps`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, bound(deserialize = "Selector: Default + Deserialize<'de>"))]
pub struct PodSelecting<Selector> {
    pub metadata: ObjectMeta,
    /// The desired state, `spec`.
    pub spec: PodSelectingSpec<Selector>,
}

/// `spec` of an object that selects pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, bound(deserialize = "Selector: Default + Deserialize<'de>"))]
pub struct PodSelectingSpec<Selector> {
    /// Selects pods.
    pub selector: Selector,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    pub metadata: ObjectMeta,
    /// The desired state, `spec`.
    pub spec: PodDisruptionBudgetSpec,
    pub status: PodDisruptionBudgetStatus,
}

/// `spec` of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDisruptionBudgetSpec {
    /// Selects pods. `None` selects no pods.
    pub selector: Option<LabelSelector>,
    /// How many pods must stay available, as a number or percentage.
    pub min_available: Option<IntOrString>,
    /// How many pods may be unavailable, as a number or percentage.
    pub max_unavailable: Option<IntOrString>,
}

/// `status` of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDisruptionBudgetStatus {
    /// Disruptions that are allowed now.
    pub disruptions_allowed: i64,
    /// Pods whose disruption is already counted, and when it was allowed.
    pub disrupted_pods: StringMap,
    /// Generation of the specification from which this status was computed.
    pub observed_generation: i64,
    /// Pods that the budget counts.
    pub expected_pods: i64,
    /// Healthy pods.
    pub current_healthy: i64,
    /// Pods that must be healthy.
    pub desired_healthy: i64,
    pub conditions: List<Condition>,
}
