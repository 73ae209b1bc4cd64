//! Deployments.

use api::time::seconds;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::meta::ObjectMeta;
use super::replica_set::set_texts;
use super::selector::LabelSelector;
use super::template::PodTemplate;
use super::values::{IntOrString, List, StringMap, time};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Deployment {
    pub metadata: ObjectMeta<StringMap>,
    /// The desired state, `spec`.
    pub spec: DeploymentSpec,
    pub status: DeploymentStatus,
}

/// `spec` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentSpec {
    /// Desired number of pods. See [`Deployment::replicas`].
    pub replicas: Option<i64>,
    /// Selects ReplicaSets and pods.
    pub selector: LabelSelector,
    pub template: PodTemplate,
    pub strategy: DeploymentStrategy,
    /// How long a pod must be ready until it is available.
    pub min_ready_seconds: i64,
    /// Number of old ReplicaSets that are kept for rollbacks. `None` keeps all.
    pub revision_history_limit: Option<i64>,
    /// Whether no rollout starts or continues.
    pub paused: bool,
    /// Time without progress after which a rollout has failed.
    pub progress_deadline_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentStrategy {
    /// Type of the strategy: `RollingUpdate` or `Recreate`.
    pub r#type: Box<str>,
    pub rolling_update: RollingUpdate,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RollingUpdate {
    /// Maximum number of pods above the desired number, as a number or percentage.
    pub max_surge: Option<IntOrString>,
    /// Maximum number of unavailable pods, as a number or percentage.
    pub max_unavailable: Option<IntOrString>,
}

/// `status` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentStatus {
    /// The generation of the specification that the controller saw last.
    pub observed_generation: i64,
    /// Number of active pods.
    pub replicas: i64,
    /// Number of active pods of the current template.
    pub updated_replicas: i64,
    pub ready_replicas: i64,
    pub available_replicas: i64,
    pub unavailable_replicas: i64,
    /// Number of pods that are being deleted. `None` if a ReplicaSet does not report it.
    pub terminating_replicas: Option<i64>,
    /// Number of collisions of template hashes.
    pub collision_count: Option<i64>,
    pub conditions: List<DeploymentCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentCondition {
    /// Type of the condition: `Available`, `Progressing` or `ReplicaFailure`.
    pub r#type: Box<str>,
    /// Status of the condition: `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// Reason of the status, in one word.
    pub reason: Box<str>,
    /// Message for users.
    pub message: Box<str>,
    /// Time of the last report. For `Progressing`, time of the last progress.
    #[serde(deserialize_with = "time")]
    pub last_update_time: Option<Timestamp>,
    /// Time of the last change of the status.
    #[serde(deserialize_with = "time")]
    pub last_transition_time: Option<Timestamp>,
}

impl Deployment {
    /// Returns the desired number of pods. The API server sets the default, 1.
    pub fn replicas(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }
}

impl DeploymentStatus {
    pub fn condition(&self, kind: &str) -> Option<&DeploymentCondition> {
        self.conditions.iter().find(|condition| &*condition.r#type == kind)
    }

    /// Returns the status as JSON. Zero counts are absent.
    pub fn to_json(&self) -> Value {
        let mut status = Map::new();
        for (field, count) in [
            ("observedGeneration", self.observed_generation),
            ("replicas", self.replicas),
            ("updatedReplicas", self.updated_replicas),
            ("readyReplicas", self.ready_replicas),
            ("availableReplicas", self.available_replicas),
            ("unavailableReplicas", self.unavailable_replicas),
        ] {
            if count != 0 {
                status.insert(field.to_owned(), count.into());
            }
        }
        for (field, count) in
            [("terminatingReplicas", self.terminating_replicas), ("collisionCount", self.collision_count)]
        {
            if let Some(count) = count {
                status.insert(field.to_owned(), count.into());
            }
        }
        if !self.conditions.is_empty() {
            let conditions = self.conditions.iter().map(DeploymentCondition::to_json).collect();
            status.insert("conditions".to_owned(), Value::Array(conditions));
        }
        Value::Object(status)
    }
}

impl DeploymentCondition {
    fn to_json(&self) -> Value {
        let mut json = json!({"type": self.r#type, "status": self.status});
        let times =
            [("lastUpdateTime", self.last_update_time), ("lastTransitionTime", self.last_transition_time)];
        for (field, time) in times {
            if let Some(time) = time {
                json[field] = seconds(time).into();
            }
        }
        set_texts(&mut json, &self.reason, &self.message);
        json
    }
}
