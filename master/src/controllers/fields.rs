//! The fields that the informers cache of each kind, beside its metadata.

mod job_pod;
mod pod;

use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use self::job_pod::{JOB_TRACKING, JobPodFields};
use self::pod::Pod;
pub use self::pod::{DISRUPTION_TARGET, PodFields};
use super::daemon_set::eligibility::Placement;
use super::object::Source;
use crate::objects::node::{NodeAddress, NodeSpec};
use crate::objects::quota::{ResourceQuotaSpec, ResourceQuotaStatus};
use crate::objects::template::TemplateDigest;
use crate::objects::volume::{PersistentVolume, PersistentVolumeClaim, StorageClass};
use crate::objects::workload::PodSelectingSpec;
use crate::objects::{
    Condition, ControllerRevision, DaemonSet, Deployment, Event, LabelSelector, List, ReplicaSet, Spec,
    StringMap, time,
};

/// The cached fields of a kind. Large fields are boxed, because most objects have none.
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
        /// Labels of the pods that the object selects.
        selector: StringMap,
    },
    PodDisruptionBudget {
        /// Selects pods. `None` selects no pods.
        selector: Option<Box<LabelSelector>>,
    },
    CertificateSigningRequest(RequestFields),
    Event {
        /// The last occurrence. `None` if the event has no time of its own.
        last_occurrence: Option<Timestamp>,
    },
    ResourceQuota(Box<QuotaFields>),
    Job(Box<JobFields>),
    DaemonSet(Box<DaemonSetFields>),
    Deployment(Box<DeploymentFields>),
    /// A ReplicaSet or a ReplicationController.
    ReplicaSet(Box<ReplicaSet>),
    ControllerRevision(RevisionFields),
    StatefulSet {
        /// Selects pods.
        selector: Box<LabelSelector>,
    },
    Claim(Box<PersistentVolumeClaim>),
    Volume(Box<PersistentVolume>),
    StorageClass(Box<StorageClass>),
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

/// Fields of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DaemonSetFields {
    /// Selects pods and ControllerRevisions.
    pub selector: LabelSelector,
    /// The nodes that run a pod.
    pub placement: Placement,
}

/// The fields of a Deployment that controllers of other kinds use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeploymentFields {
    /// Selects ReplicaSets and pods.
    pub selector: LabelSelector,
    /// Whether old pods end before new ones are created.
    pub is_recreated: bool,
}

/// Fields of a ControllerRevision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevisionFields {
    /// The number of the revision.
    pub number: i64,
    /// The digest of the pod template. `None` if the data is no template.
    pub template: Option<TemplateDigest>,
}

/// Fields of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFields {
    /// How long a finished Job is kept. `None` means forever.
    pub ttl_seconds: Option<i64>,
    /// Selects pods.
    pub selector: LabelSelector,
    /// How and when the Job finished, if it has.
    pub end: Option<JobEnd>,
    /// When the Job started.
    pub started: Option<Timestamp>,
    /// The time for which a CronJob started the Job.
    pub scheduled: Option<Timestamp>,
}

/// The end of a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// Whether the Job is complete, not failed.
    pub is_complete: bool,
    /// When the Job finished.
    pub at: Option<Timestamp>,
}

impl Fields {
    /// Decodes the fields of an object of a resource.
    ///
    /// # Errors
    /// If a field has another type.
    pub(super) fn decode(resource: &str, object: &(impl Source + ?Sized)) -> Result<Self, serde_json::Error> {
        Ok(match resource {
            "pods" => Self::Pod(object.read::<Pod>()?.into()),
            "nodes" => Self::Node(object.read()?),
            "secrets" => Self::Secret { r#type: object.read::<Secret>()?.r#type },
            "services" => Self::Service { selector: selector(object)? },
            "poddisruptionbudgets.policy" => Self::PodDisruptionBudget { selector: selector(object)? },
            "certificatesigningrequests.certificates.k8s.io" => {
                Self::CertificateSigningRequest(object.read::<Body<RequestSpec, Conditions>>()?.into())
            }
            "events" => Self::Event { last_occurrence: object.read::<Event>()?.recorded_time() },
            "resourcequotas" => Self::ResourceQuota(object.read()?),
            "daemonsets.apps" => Self::DaemonSet(Box::new(object.read::<DaemonSet>()?.into())),
            "deployments.apps" => Self::Deployment(Box::new(object.read::<Deployment>()?.into())),
            "replicasets.apps" => Self::ReplicaSet(object.read()?),
            "replicationcontrollers" => {
                Self::ReplicaSet(Box::new(object.read::<ReplicaSet<StringMap>>()?.into()))
            }
            "controllerrevisions.apps" => {
                let ControllerRevision { revision: number, data, .. } = object.read()?;
                Self::ControllerRevision(RevisionFields { number, template: data.digest() })
            }
            "statefulsets.apps" => Self::StatefulSet { selector: selector(object)? },
            "persistentvolumeclaims" => Self::Claim(object.read()?),
            "persistentvolumes" => Self::Volume(object.read()?),
            "storageclasses.storage.k8s.io" => Self::StorageClass(object.read()?),
            "jobs.batch" => Self::Job(Box::new(object.read::<Job>()?.into())),
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

impl From<DaemonSet> for DaemonSetFields {
    fn from(set: DaemonSet) -> Self {
        Self { placement: Placement::of(&set.spec.template.spec), selector: set.spec.selector }
    }
}

impl From<Deployment> for DeploymentFields {
    fn from(deployment: Deployment) -> Self {
        let is_recreated = &*deployment.spec.strategy.r#type == "Recreate";
        Self { selector: deployment.spec.selector, is_recreated }
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
struct JobSpec {
    ttl_seconds_after_finished: Option<i64>,
    selector: LabelSelector,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct JobStatus {
    conditions: List<Condition>,
    #[serde(deserialize_with = "time")]
    start_time: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Job {
    metadata: JobMetadata,
    spec: JobSpec,
    status: JobStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JobMetadata {
    annotations: Option<JobAnnotations>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JobAnnotations {
    #[serde(rename = "batch.kubernetes.io/cronjob-scheduled-timestamp", deserialize_with = "time")]
    scheduled: Option<Timestamp>,
}

impl From<Job> for JobFields {
    fn from(Job { metadata, spec, status }: Job) -> Self {
        let is_end = |one: &&Condition| matches!(&*one.r#type, "Complete" | "Failed") && one.is_true();
        let end = status.conditions.iter().find(is_end);
        Self {
            ttl_seconds: spec.ttl_seconds_after_finished,
            selector: spec.selector,
            end: end
                .map(|end| JobEnd { is_complete: &*end.r#type == "Complete", at: end.last_transition_time }),
            started: status.start_time,
            scheduled: metadata.annotations.and_then(|annotations| annotations.scheduled),
        }
    }
}
