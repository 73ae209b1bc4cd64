//! The fields that the informers cache of each kind, beside its metadata.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::object::Source;
use crate::objects::node::{NodeAddress, NodeSpec};
use crate::objects::quota::{ResourceQuotaSpec, ResourceQuotaStatus};
use crate::objects::workload::PodSelectingSpec;
use crate::objects::{Condition, LabelSelector, List, Spec, StringMap, time};

/// The cached fields of a kind. Large ones are boxed, because most objects have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fields {
    /// Controllers read only the metadata of this kind.
    #[default]
    None,
    Pod(PodFields),
    Node(Box<NodeFields>),
    Secret {
        /// The type of the Secret.
        r#type: Box<str>,
    },
    Service {
        /// Labels of its pods.
        selector: StringMap,
    },
    PodDisruptionBudget {
        /// Selects pods; `None` selects none.
        selector: Option<Box<LabelSelector>>,
    },
    CertificateSigningRequest(RequestFields),
    Event {
        /// The last occurrence; `None` if the event has no time of its own.
        last_occurrence: Option<Timestamp>,
    },
    ResourceQuota(Box<QuotaFields>),
    Job(JobFields),
}

/// Fields of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFields {
    /// The node of the pod; empty while it is not bound.
    pub node: Box<str>,
    pub phase: Box<str>,
    /// Whether the condition `Ready` is true.
    pub is_ready: bool,
}

impl PodFields {
    /// Whether the phase is Succeeded or Failed.
    pub fn is_terminal(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }
}

/// Fields of a Node. The zone is in its labels, and its trust in its annotations.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeFields {
    pub metadata: NodeMetadata,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeMetadata {
    pub annotations: StringMap,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    pub addresses: List<NodeAddress>,
    pub conditions: List<Condition>,
}

/// Fields of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFields {
    /// The user who created the request.
    pub username: Box<str>,
    /// Whether the request has no condition yet.
    pub is_pending: bool,
}

/// Fields of a ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct QuotaFields {
    pub spec: ResourceQuotaSpec,
    pub status: ResourceQuotaStatus,
}

/// Fields of a Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobFields {
    /// How long a finished Job is kept; `None` means for ever.
    pub ttl_seconds: Option<i64>,
    /// When the Job finished, if it has.
    pub finished: Option<Timestamp>,
}

impl Fields {
    /// Decodes the fields of an object of a resource.
    ///
    /// # Errors
    /// If a field has another type.
    pub(super) fn decode(resource: &str, object: &(impl Source + ?Sized)) -> Result<Self, serde_json::Error> {
        Ok(match resource {
            "pods" => Self::Pod(object.read::<Body<PodSpec, PodStatus>>()?.into()),
            "nodes" => Self::Node(object.read()?),
            "secrets" => Self::Secret { r#type: object.read::<Secret>()?.r#type },
            "services" => Self::Service { selector: selector(object)? },
            "poddisruptionbudgets.policy" => Self::PodDisruptionBudget { selector: selector(object)? },
            "certificatesigningrequests.certificates.k8s.io" => {
                Self::CertificateSigningRequest(object.read::<Body<RequestSpec, Conditions>>()?.into())
            }
            "events" => Self::Event { last_occurrence: object.read::<EventTimes>()?.last() },
            "resourcequotas" => Self::ResourceQuota(object.read()?),
            "jobs.batch" => Self::Job(object.read::<Body<JobSpec, JobStatus>>()?.into()),
            _ => Self::None,
        })
    }

    pub(super) fn pod(&self) -> &PodFields {
        static NONE: LazyLock<PodFields> = LazyLock::new(PodFields::default);
        if let Self::Pod(fields) = self { fields } else { &NONE }
    }

    pub(super) fn node(&self) -> &NodeFields {
        static NONE: LazyLock<NodeFields> = LazyLock::new(NodeFields::default);
        if let Self::Node(fields) = self { fields } else { &NONE }
    }
}

fn selector<T: Default + DeserializeOwned>(object: &(impl Source + ?Sized)) -> Result<T, serde_json::Error> {
    Ok(object.read::<Spec<PodSelectingSpec<T>>>()?.spec.selector)
}

/// `spec` and `status` of an object.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "S: Default + Deserialize<'de>, T: Default + Deserialize<'de>"))]
struct Body<S, T> {
    spec: S,
    status: T,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: Box<str>,
    conditions: List<ConditionStatus>,
}

/// A condition without its texts.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ConditionStatus {
    r#type: Box<str>,
    status: Box<str>,
}

impl From<Body<PodSpec, PodStatus>> for PodFields {
    fn from(Body { spec, status }: Body<PodSpec, PodStatus>) -> Self {
        let is_ready = |one: &ConditionStatus| &*one.r#type == "Ready" && &*one.status == "True";
        Self { node: spec.node_name, is_ready: status.conditions.iter().any(is_ready), phase: status.phase }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Secret {
    r#type: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RequestSpec {
    username: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Conditions {
    conditions: List<serde::de::IgnoredAny>,
}

impl From<Body<RequestSpec, Conditions>> for RequestFields {
    fn from(Body { spec, status }: Body<RequestSpec, Conditions>) -> Self {
        Self { username: spec.username, is_pending: status.conditions.is_empty() }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventTimes {
    #[serde(deserialize_with = "time")]
    last_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "time")]
    event_time: Option<Timestamp>,
    series: Option<EventSeries>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventSeries {
    #[serde(deserialize_with = "time")]
    last_observed_time: Option<Timestamp>,
}

impl EventTimes {
    fn last(self) -> Option<Timestamp> {
        let observed = self.series.and_then(|series| series.last_observed_time);
        observed.max(self.last_timestamp).max(self.event_time)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JobSpec {
    ttl_seconds_after_finished: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JobStatus {
    conditions: List<Condition>,
}

impl From<Body<JobSpec, JobStatus>> for JobFields {
    fn from(Body { spec, status }: Body<JobSpec, JobStatus>) -> Self {
        let is_end = |one: &&Condition| matches!(&*one.r#type, "Complete" | "Failed") && one.is_true();
        let end = status.conditions.iter().find(is_end);
        Self {
            ttl_seconds: spec.ttl_seconds_after_finished,
            finished: end.and_then(|end| end.last_transition_time),
        }
    }
}
