//! The fields that the informers cache of each kind, beside its metadata.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::daemon_set::eligibility::Placement;
use super::object::Source;
use crate::objects::node::{NodeAddress, NodeSpec};
use crate::objects::node_affinity::NODE_NAME;
use crate::objects::pod::NodeAffinity;
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
    Job(JobFields),
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

/// The fields of a pod that controllers use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFields {
    /// The node of the pod. Empty while the pod is not bound.
    pub node: Box<str>,
    /// The node that the required node affinity names while the pod is not bound, as in pods of DaemonSets. Empty if
    /// it names none.
    pub named_node: Box<str>,
    pub phase: Box<str>,
    /// Whether the condition `Ready` is true.
    pub is_ready: bool,
    /// Time of the last change of the condition `Ready`.
    pub ready_changed: Option<Timestamp>,
    /// `controller.kubernetes.io/pod-deletion-cost`; 0 if it is absent or no number.
    pub deletion_cost: i32,
    /// Most restarts of an app container, and of a sidecar.
    pub restarts: (i64, i64),
    /// The PersistentVolumeClaims that the pod uses.
    pub claims: List<Box<str>>,
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

/// The fields of a Job that the TTL controller uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobFields {
    /// How long a finished Job is kept. `None` means forever.
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
#[serde(default)]
struct Pod {
    metadata: PodMetadata,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodMetadata {
    name: Box<str>,
    annotations: PodAnnotations,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodAnnotations {
    #[serde(rename = "controller.kubernetes.io/pod-deletion-cost")]
    deletion_cost: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: Box<str>,
    affinity: Option<PodAffinity>,
    init_containers: List<InitContainer>,
    volumes: List<PodVolume>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodVolume {
    name: Box<str>,
    persistent_volume_claim: Option<ClaimSource>,
    ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSource {
    claim_name: Box<str>,
}

impl PodVolume {
    /// The claim of the volume. That of an ephemeral volume has the names of pod and volume.
    fn claim(&self, pod: &str) -> Option<Box<str>> {
        let ephemeral = || self.ephemeral.map(|_| format!("{pod}-{}", self.name).into());
        self.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone()).or_else(ephemeral)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodAffinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct InitContainer {
    name: Box<str>,
    restart_policy: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    phase: Box<str>,
    conditions: List<PodCondition>,
    container_statuses: List<ContainerStatus>,
    init_container_statuses: List<ContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    name: Box<str>,
    restart_count: i64,
}

/// A condition without its texts.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodCondition {
    r#type: Box<str>,
    status: Box<str>,
    #[serde(deserialize_with = "time")]
    last_transition_time: Option<Timestamp>,
}

impl PodAffinity {
    /// Returns the node that the first term with a requirement on `metadata.name` names.
    fn named_node(self) -> Option<Box<str>> {
        let required = self.node_affinity?.required?;
        let fields = required.node_selector_terms.iter().flat_map(|term| &term.match_fields);
        let mut names = fields.filter(|field| &*field.key == NODE_NAME && &*field.operator == "In");
        match &*names.next()?.values {
            [name] => Some(name.clone()),
            _ => None,
        }
    }
}

impl From<Pod> for PodFields {
    fn from(Pod { metadata, spec, status }: Pod) -> Self {
        let ready = status.conditions.iter().find(|condition| &*condition.r#type == "Ready");
        let is_sidecar = |status: &&ContainerStatus| {
            let is_it = |one: &InitContainer| one.name == status.name && &*one.restart_policy == "Always";
            spec.init_containers.iter().any(is_it)
        };
        let app = status.container_statuses.iter().map(|status| status.restart_count).max();
        let sidecars = status.init_container_statuses.iter().filter(is_sidecar);
        let sidecar = sidecars.map(|status| status.restart_count).max();
        let cost = metadata.annotations.deletion_cost;
        let affinity = spec.affinity.filter(|_| spec.node_name.is_empty());
        Self {
            named_node: affinity.and_then(PodAffinity::named_node).unwrap_or_default(),
            claims: spec.volumes.iter().filter_map(|volume| volume.claim(&metadata.name)).collect(),
            is_ready: ready.is_some_and(|ready| &*ready.status == "True"),
            ready_changed: ready.and_then(|ready| ready.last_transition_time),
            deletion_cost: cost.and_then(|cost| cost.parse().ok()).unwrap_or(0),
            restarts: (app.unwrap_or(0), sidecar.unwrap_or(0)),
            node: spec.node_name,
            phase: status.phase,
        }
    }
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
