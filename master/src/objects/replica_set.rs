//! ReplicaSets and ReplicationControllers.

use api::time::seconds;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::meta::{Condition, ObjectMeta};
use super::selector::LabelSelector;
use super::template::PodTemplate;
use super::values::{List, StringMap};

/// A ReplicaSet. With a label map as `Selector`, it is a ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, bound(deserialize = "Selector: Default + Deserialize<'de>"))]
pub struct ReplicaSet<Selector = LabelSelector> {
    pub metadata: ObjectMeta<StringMap>,
    /// The desired state, `spec`.
    pub spec: ReplicaSetSpec<Selector>,
    pub status: ReplicaSetStatus,
}

/// `spec` of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "Selector: Default + Deserialize<'de>"))]
pub struct ReplicaSetSpec<Selector> {
    /// Desired number of pods. See [`ReplicaSet::replicas`].
    pub replicas: Option<i64>,
    /// How long a pod must be ready until it is available.
    pub min_ready_seconds: i64,
    /// Selects pods.
    pub selector: Selector,
    pub template: PodTemplate,
}

/// `status` of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSetStatus {
    /// Number of active pods.
    pub replicas: i64,
    /// Number of active pods with all labels of the template.
    pub fully_labeled_replicas: i64,
    pub ready_replicas: i64,
    pub available_replicas: i64,
    /// Number of pods that are being deleted. `None` if it is not reported.
    pub terminating_replicas: Option<i64>,
    /// The generation of the specification that the controller saw last.
    pub observed_generation: i64,
    pub conditions: List<Condition>,
}

impl<Selector> ReplicaSet<Selector> {
    /// Returns the desired number of pods. The API server sets the default, 1.
    pub fn replicas(&self) -> i64 {
        self.spec.replicas.unwrap_or(1)
    }
}

impl From<ReplicaSet<StringMap>> for ReplicaSet {
    fn from(controller: ReplicaSet<StringMap>) -> Self {
        let ReplicaSet { metadata, spec, status } = controller;
        let selector = LabelSelector { match_labels: spec.selector, ..LabelSelector::default() };
        let ReplicaSetSpec { replicas, min_ready_seconds, template, .. } = spec;
        Self { metadata, spec: ReplicaSetSpec { replicas, min_ready_seconds, selector, template }, status }
    }
}

impl ReplicaSetStatus {
    /// Returns the status as JSON. Zero counts are absent, except `replicas`.
    pub fn to_json(&self) -> Value {
        let mut status = Map::new();
        status.insert("replicas".to_owned(), self.replicas.into());
        for (field, count) in [
            ("fullyLabeledReplicas", self.fully_labeled_replicas),
            ("readyReplicas", self.ready_replicas),
            ("availableReplicas", self.available_replicas),
            ("observedGeneration", self.observed_generation),
        ] {
            if count != 0 {
                status.insert(field.to_owned(), count.into());
            }
        }
        if let Some(count) = self.terminating_replicas {
            status.insert("terminatingReplicas".to_owned(), count.into());
        }
        if !self.conditions.is_empty() {
            let conditions = self.conditions.iter().map(condition_json).collect();
            status.insert("conditions".to_owned(), Value::Array(conditions));
        }
        Value::Object(status)
    }
}

/// Returns a condition as JSON.
pub(super) fn condition_json(condition: &Condition) -> Value {
    let mut json = json!({"type": condition.r#type, "status": condition.status});
    if let Some(time) = condition.last_transition_time {
        json["lastTransitionTime"] = seconds(time).into();
    }
    set_texts(&mut json, &condition.reason, &condition.message);
    json
}

/// Sets the reason and message of a condition, if there are any.
pub(super) fn set_texts(condition: &mut Value, reason: &str, message: &str) {
    for (field, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition[field] = text.into();
        }
    }
}

/// Truncates a time to whole seconds, as the API stores it.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
