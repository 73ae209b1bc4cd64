//! StatefulSets.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::meta::{ObjectMeta, PartialObject};
use super::selector::LabelSelector;
use super::template::PodTemplate;
use super::values::{IntOrString, List, StringMap};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct StatefulSet {
    pub metadata: ObjectMeta<StringMap>,
    /// Specification.
    pub spec: StatefulSetSpec,
    pub status: StatefulSetStatus,
}

/// `spec` of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetSpec {
    /// Desired number of pods. See [`StatefulSet::replicas`].
    pub replicas: Option<i64>,
    /// Selects pods.
    pub selector: LabelSelector,
    pub template: PodTemplate,
    /// Templates of PersistentVolumeClaims. Each pod has one claim of each template.
    pub volume_claim_templates: List<PartialObject>,
    /// Headless Service that publishes the host names of the pods.
    pub service_name: Box<str>,
    /// Pod management policy: `OrderedReady` or `Parallel`.
    pub pod_management_policy: Box<str>,
    pub update_strategy: StatefulSetUpdateStrategy,
    /// Number of old revisions that are kept for rollbacks. `None` keeps all.
    pub revision_history_limit: Option<i64>,
    /// How long a pod must be ready until it is available.
    pub min_ready_seconds: i64,
    pub persistent_volume_claim_retention_policy: ClaimRetentionPolicy,
    pub ordinals: StatefulSetOrdinals,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetUpdateStrategy {
    /// Type of the strategy: `RollingUpdate` or `OnDelete`.
    pub r#type: Box<str>,
    pub rolling_update: Option<RollingUpdateStatefulSet>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RollingUpdateStatefulSet {
    /// Number of pods, from the first ordinal, that keep the current revision.
    pub partition: Option<i64>,
    /// Maximum number of unavailable pods, as a number or percentage.
    pub max_unavailable: Option<IntOrString>,
}

/// When PersistentVolumeClaims are deleted: `Retain` or `Delete`. Absent means `Retain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimRetentionPolicy {
    /// What happens to the claims of a deleted StatefulSet.
    pub when_deleted: Box<str>,
    /// What happens to the claims of pods that scaling down has deleted.
    pub when_scaled: Box<str>,
}

impl ClaimRetentionPolicy {
    pub fn deletes_with_set(&self) -> bool {
        &*self.when_deleted == "Delete"
    }

    pub fn deletes_when_scaled(&self) -> bool {
        &*self.when_scaled == "Delete"
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StatefulSetOrdinals {
    /// The first ordinal.
    pub start: i64,
}

/// `status` of a StatefulSet, without its conditions, which no controller sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetStatus {
    /// The generation of the specification that the controller saw last.
    pub observed_generation: i64,
    /// Number of pods.
    pub replicas: i64,
    pub ready_replicas: i64,
    pub available_replicas: i64,
    /// Number of pods of the current revision.
    pub current_replicas: i64,
    /// Number of pods of the update revision.
    pub updated_replicas: i64,
    /// The revision of pods that are not updated yet.
    pub current_revision: Box<str>,
    /// The revision of the present template.
    pub update_revision: Box<str>,
    /// Number of collisions of revision names.
    pub collision_count: Option<i64>,
}

impl StatefulSet {
    /// Returns the desired number of pods. The API server sets the default, 1.
    pub fn replicas(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }

    /// Whether pods are created and deleted in parallel.
    pub fn is_parallel(&self) -> bool {
        &*self.spec.pod_management_policy == "Parallel"
    }

    /// Whether a change of the template replaces pods.
    pub fn is_rolling(&self) -> bool {
        &*self.spec.update_strategy.r#type == "RollingUpdate"
    }
}

impl StatefulSetStatus {
    /// Writes the status into that of an object. Other fields stay. Zero counts are absent, except `replicas`.
    pub fn write(&self, status: &mut Map<String, Value>) {
        status.insert("replicas".to_owned(), self.replicas.into());
        for (field, count) in [
            ("observedGeneration", self.observed_generation),
            ("readyReplicas", self.ready_replicas),
            ("availableReplicas", self.available_replicas),
            ("currentReplicas", self.current_replicas),
            ("updatedReplicas", self.updated_replicas),
        ] {
            put(status, field, (count != 0).then(|| count.into()));
        }
        for (field, revision) in
            [("currentRevision", &self.current_revision), ("updateRevision", &self.update_revision)]
        {
            put(status, field, (!revision.is_empty()).then(|| Value::from(&**revision)));
        }
        put(status, "collisionCount", self.collision_count.map(Value::from));
    }
}

/// Sets a field, or removes it.
fn put(object: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(object.insert(field.to_owned(), value)),
        None => drop(object.shift_remove(field)),
    }
}
