//! DaemonSets.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::deployment::RollingUpdate;
use super::meta::ObjectMeta;
use super::node::Toleration;
use super::pod::NodeAffinity;
use super::selector::LabelSelector;
use super::values::{List, StringMap};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    pub metadata: ObjectMeta<StringMap>,
    /// Specification.
    pub spec: DaemonSetSpec,
    pub status: DaemonSetStatus,
}

/// `spec` of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetSpec {
    /// Selects pods.
    pub selector: LabelSelector,
    pub template: DaemonTemplate,
    pub update_strategy: DaemonUpdateStrategy,
    /// How long a pod must be ready until it is available.
    pub min_ready_seconds: i64,
    /// Number of old revisions that are kept for rollbacks. The API server sets the default, 10.
    pub revision_history_limit: Option<i64>,
}

/// The fields of the pod template that decide where pods run. The content is copied from the JSON of the DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DaemonTemplate {
    pub spec: DaemonPodSpec,
}

/// The part of a pod spec that decides on which nodes the pods of a DaemonSet run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonPodSpec {
    /// The only node that may run a pod. Empty for all nodes.
    pub node_name: Box<str>,
    /// Labels that the node must have.
    pub node_selector: StringMap,
    pub affinity: Option<DaemonAffinity>,
    pub tolerations: List<Toleration>,
    pub host_network: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonAffinity {
    pub node_affinity: Option<NodeAffinity>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonUpdateStrategy {
    /// Type of the strategy: `RollingUpdate` or `OnDelete`.
    pub r#type: Box<str>,
    pub rolling_update: Option<RollingUpdate>,
}

/// `status` of a DaemonSet, except its conditions, which the controller does not set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetStatus {
    /// Nodes that should run a pod, and do.
    pub current_number_scheduled: i64,
    /// Nodes that should not run a pod, but do.
    pub number_misscheduled: i64,
    /// Nodes that should run a pod.
    pub desired_number_scheduled: i64,
    /// Nodes that should run a pod, and run one that is ready.
    pub number_ready: i64,
    /// The generation of the specification that the controller saw last.
    pub observed_generation: i64,
    /// Nodes that should run a pod, and run one of the current template.
    pub updated_number_scheduled: i64,
    /// Nodes that should run a pod, and run one that is available.
    pub number_available: i64,
    /// Nodes that should run a pod, and run none that is available.
    pub number_unavailable: i64,
    /// Number of collisions of template hashes.
    pub collision_count: Option<i64>,
}

impl DaemonSetStatus {
    /// Writes the fields into the status of a DaemonSet. Other fields stay. Optional counts are absent if they are 0.
    pub fn write_to(&self, status: &mut Map<String, Value>) {
        for (field, count) in [
            ("currentNumberScheduled", self.current_number_scheduled),
            ("numberMisscheduled", self.number_misscheduled),
            ("desiredNumberScheduled", self.desired_number_scheduled),
            ("numberReady", self.number_ready),
        ] {
            status.insert(field.to_owned(), count.into());
        }
        let optional = |count: i64| Some(count).filter(|count| *count != 0);
        for (field, count) in [
            ("observedGeneration", optional(self.observed_generation)),
            ("updatedNumberScheduled", optional(self.updated_number_scheduled)),
            ("numberAvailable", optional(self.number_available)),
            ("numberUnavailable", optional(self.number_unavailable)),
            ("collisionCount", self.collision_count),
        ] {
            match count {
                Some(count) => drop(status.insert(field.to_owned(), count.into())),
                None => drop(status.remove(field)),
            }
        }
    }
}
