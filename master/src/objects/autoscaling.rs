//! HorizontalPodAutoscalers (`autoscaling/v2`), scales, and the metrics of pods.

use api::quantity::Quantity;
use api::time::seconds;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::meta::{Condition, ObjectMeta};
use super::replica_set::condition_json;
use super::values::{List, StringMap, time};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct HorizontalPodAutoscaler {
    pub metadata: ObjectMeta,
    /// The desired state, `spec`.
    pub spec: AutoscalerSpec,
    pub status: AutoscalerStatus,
}

/// `spec` of a HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerSpec {
    /// The object to scale, in the namespace of the autoscaler.
    pub scale_target_ref: CrossVersionObjectReference,
    /// Lower limit of the replicas. See [`HorizontalPodAutoscaler::min_replicas`].
    pub min_replicas: Option<i64>,
    /// Upper limit of the replicas.
    pub max_replicas: i64,
    /// The metrics with their targets. The highest proposal counts.
    pub metrics: List<MetricSpec>,
    /// Rates and windows of scaling. `None` selects the default algorithm of Kubernetes.
    pub behavior: Option<Behavior>,
}

/// A reference to an object in any version of its group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CrossVersionObjectReference {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
}

/// A metric with its target.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type")]
pub enum MetricSpec {
    /// CPU or memory of the pods.
    Resource { resource: ResourceMetric },
    /// CPU or memory of one container in each pod.
    ContainerResource {
        #[serde(rename = "containerResource")]
        resource: ResourceMetric,
    },
    /// A custom metric of the pods.
    Pods { pods: NamedMetric },
    /// A custom metric of one object.
    Object { object: ObjectMetric },
    /// A metric of something outside the cluster.
    External { external: NamedMetric },
    /// A type of a later API version.
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceMetric {
    /// Name of the resource: `cpu` or `memory`.
    pub name: Box<str>,
    /// Name of the container; empty for all containers.
    pub container: Box<str>,
    pub target: MetricTarget,
}

/// The target of a resource metric. One field is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MetricTarget {
    /// Percentage of the requests of the pods.
    pub average_utilization: Option<i64>,
    /// Average of the pods.
    #[serde(deserialize_with = "quantity")]
    pub average_value: Option<Quantity>,
}

/// A metric of the custom or external metrics API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NamedMetric {
    pub metric: MetricIdentifier,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MetricIdentifier {
    pub name: Box<str>,
}

/// A metric of the custom metrics API that describes one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMetric {
    pub described_object: CrossVersionObjectReference,
    pub metric: MetricIdentifier,
}

/// `spec.behavior` of a HorizontalPodAutoscaler. The API server sets the defaults of absent fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Behavior {
    pub scale_up: Option<ScalingRules>,
    pub scale_down: Option<ScalingRules>,
}

/// The rules of scaling in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScalingRules {
    /// How long earlier recommendations count, in seconds, at most 3600.
    pub stabilization_window_seconds: Option<i64>,
    pub select_policy: SelectPolicy,
    pub policies: List<ScalingPolicy>,
    /// Deviation from the target, as a ratio, that causes no change.
    #[serde(deserialize_with = "quantity")]
    pub tolerance: Option<Quantity>,
}

/// Which of several policies applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum SelectPolicy {
    /// The policy that permits the largest change.
    #[default]
    Max,
    /// The policy that permits the smallest change.
    Min,
    /// None: there is no scaling in this direction.
    Disabled,
}

/// The largest change within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalingPolicy {
    pub r#type: PolicyType,
    /// Number or percentage of pods.
    pub value: i64,
    /// Length of the period in seconds, at most 1800.
    pub period_seconds: i64,
}

/// The unit of a scaling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum PolicyType {
    Pods,
    Percent,
}

/// `status` of a HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AutoscalerStatus {
    /// The generation of the specification that the controller saw last.
    pub observed_generation: Option<i64>,
    #[serde(deserialize_with = "time")]
    pub last_scale_time: Option<Timestamp>,
    pub current_replicas: i64,
    pub desired_replicas: i64,
    /// The current metrics in the order of `spec.metrics`, as the API has them.
    pub current_metrics: List<Value>,
    pub conditions: List<Condition>,
}

/// The scale of an object: subresource `scale` (`autoscaling/v1`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Scale {
    pub metadata: ObjectMeta,
    pub spec: ScaleSpec,
    pub status: ScaleStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ScaleSpec {
    /// Desired number of replicas.
    pub replicas: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ScaleStatus {
    /// Label selector of the pods as text; empty if the object has none.
    pub selector: Box<str>,
}

/// The usage of a pod, of `metrics.k8s.io`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodMetrics {
    pub metadata: ObjectMeta,
    /// End of the window.
    #[serde(deserialize_with = "time")]
    pub timestamp: Option<Timestamp>,
    /// Length of the window, such as `15.2s`.
    pub window: Box<str>,
    pub containers: List<ContainerMetrics>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ContainerMetrics {
    pub name: Box<str>,
    /// Quantities by resource name.
    pub usage: StringMap,
}

impl HorizontalPodAutoscaler {
    /// Returns the lower limit of the replicas. The API server sets the default, 1.
    pub fn min_replicas(&self) -> i64 {
        self.spec.min_replicas.unwrap_or(1)
    }
}

impl AutoscalerStatus {
    /// Returns the status as JSON.
    pub fn to_json(&self) -> Value {
        let mut status = Map::new();
        if let Some(generation) = self.observed_generation {
            status.insert("observedGeneration".to_owned(), generation.into());
        }
        if let Some(time) = self.last_scale_time {
            status.insert("lastScaleTime".to_owned(), seconds(time).into());
        }
        status.insert("currentReplicas".to_owned(), self.current_replicas.into());
        status.insert("desiredReplicas".to_owned(), self.desired_replicas.into());
        if !self.current_metrics.is_empty() {
            status.insert("currentMetrics".to_owned(), self.current_metrics.iter().cloned().collect());
        }
        let conditions = self.conditions.iter().map(condition_json).collect();
        status.insert("conditions".to_owned(), conditions);
        Value::Object(status)
    }
}

/// Decodes a quantity. A text that is no quantity, which the API server rejects, is treated as absent.
fn quantity<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Quantity>, D::Error> {
    Ok(Option::<String>::deserialize(input)?.and_then(|text| text.parse().ok()))
}

#[cfg(test)]
mod tests {
    //! Tests of metrics of all types, and of absent fields.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn metrics_of_all_types_are_decoded() {
        let utilization = json!({"type": "Utilization", "averageUtilization": 50});
        let scaler: HorizontalPodAutoscaler = serde_json::from_value(json!({"spec": {"maxReplicas": 3, "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": utilization}},
            {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "app",
                "target": {"type": "AverageValue", "averageValue": "100Mi"}}},
            {"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": {"type": "AverageValue", "averageValue": "1k"}}},
            {"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": {"kind": "Ingress", "name": "main"},
                "target": {"type": "Value", "value": "10"}}},
            {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "30"}}},
            {"type": "Later", "later": {"name": "x"}},
        ]}}))
        .unwrap();
        let [
            cpu,
            memory,
            MetricSpec::Pods { pods },
            MetricSpec::Object { object },
            MetricSpec::External { external },
            later,
        ] = &*scaler.spec.metrics
        else {
            panic!("{scaler:?}")
        };
        let MetricSpec::Resource { resource } = cpu else { panic!("{cpu:?}") };
        assert_eq!((&*resource.name, resource.target.average_utilization), ("cpu", Some(50)));
        let MetricSpec::ContainerResource { resource } = memory else { panic!("{memory:?}") };
        assert_eq!(
            (&*resource.container, resource.target.average_value.unwrap().units()),
            ("app", 100 << 20)
        );
        let names = [&pods.metric.name, &object.metric.name, &external.metric.name].map(|name| &**name);
        assert_eq!(
            (names, &*object.described_object.name, later),
            (["requests", "hits", "queue"], "main", &MetricSpec::Unknown)
        );
        assert_eq!((scaler.min_replicas(), scaler.spec.behavior), (1, None));
    }

    #[test]
    fn a_status_is_written_as_it_was_read() {
        let status = json!({"observedGeneration": 2, "lastScaleTime": "2026-01-01T00:00:00Z", "currentReplicas": 1,
        "desiredReplicas": 2, "currentMetrics": [{"type": ""}], "conditions": [
            {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "A", "message": "b"},
        ]});
        let read: AutoscalerStatus = serde_json::from_value(status.clone()).unwrap();
        assert_eq!(read.to_json(), status);
    }
}
