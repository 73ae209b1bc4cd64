//! Decodes the fields of a pod that the informers cache.

use jiff::Timestamp;
use serde::Deserialize;

use super::job_pod::JobPodFields;
use crate::objects::node_affinity::NODE_NAME;
use crate::objects::pod::NodeAffinity;
use crate::objects::{List, OwnerReference, time};

/// The condition of a pod that is about to be deleted because of a disruption.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// The reason of that condition if the kubelet terminates the pod.
const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";

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
    /// Start of the condition `DisruptionTarget`, if it is true and the kubelet did not set it. The epoch if the
    /// condition has no time.
    pub disruption_start: Option<Timestamp>,
    /// `controller.kubernetes.io/pod-deletion-cost`; 0 if it is absent or no number.
    pub deletion_cost: i32,
    /// Most restarts of an app container, and of a sidecar.
    pub restarts: (i64, i64),
    /// The PersistentVolumeClaims that the pod uses.
    pub claims: List<Box<str>>,
    /// More fields of a pod that belongs to a Job.
    pub job: Option<Box<JobPodFields>>,
}

impl PodFields {
    /// Whether the phase is Succeeded or Failed.
    pub fn is_terminal(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    pub(super) metadata: PodMetadata,
    spec: PodSpec,
    pub(super) status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodMetadata {
    name: Box<str>,
    pub(super) annotations: PodAnnotations,
    pub(super) owner_references: List<OwnerReference>,
    pub(super) finalizers: List<Box<str>>,
    #[serde(deserialize_with = "time")]
    pub(super) deletion_timestamp: Option<Timestamp>,
    pub(super) deletion_grace_period_seconds: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PodAnnotations {
    #[serde(rename = "controller.kubernetes.io/pod-deletion-cost")]
    deletion_cost: Option<Box<str>>,
    #[serde(rename = "batch.kubernetes.io/job-completion-index")]
    pub(super) index: Option<Box<str>>,
    #[serde(rename = "batch.kubernetes.io/job-index-failure-count")]
    pub(super) failures: Option<Box<str>>,
    #[serde(rename = "batch.kubernetes.io/job-index-ignored-failure-count")]
    pub(super) ignored_failures: Option<Box<str>>,
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
    /// The name of the volume's claim. For an ephemeral volume it is `<pod>-<volume>`.
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

impl PodAffinity {
    /// Returns the node that the first term with a requirement on `metadata.name` names.
    fn named_node(&self) -> Option<Box<str>> {
        let required = self.node_affinity.as_ref()?.required.as_ref()?;
        let fields = required.node_selector_terms.iter().flat_map(|term| &term.match_fields);
        let mut names = fields.filter(|field| &*field.key == NODE_NAME && &*field.operator == "In");
        match &*names.next()?.values {
            [name] => Some(name.clone()),
            _ => None,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct InitContainer {
    name: Box<str>,
    restart_policy: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodStatus {
    phase: Box<str>,
    pub(super) conditions: List<PodCondition>,
    pub(super) container_statuses: List<ContainerStatus>,
    pub(super) init_container_statuses: List<ContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContainerStatus {
    pub(super) name: Box<str>,
    pub(super) restart_count: i64,
    state: Option<ContainerState>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    terminated: Option<Terminated>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Terminated {
    pub(super) exit_code: i64,
    #[serde(deserialize_with = "time")]
    pub(super) finished_at: Option<Timestamp>,
}

impl ContainerStatus {
    /// Returns how the container terminated, if it has.
    pub(super) fn terminated(&self) -> Option<&Terminated> {
        self.state.as_ref()?.terminated.as_ref()
    }
}

/// A condition without its message.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodCondition {
    pub(super) r#type: Box<str>,
    pub(super) status: Box<str>,
    reason: Box<str>,
    #[serde(deserialize_with = "time")]
    pub(super) last_transition_time: Option<Timestamp>,
}

impl Pod {
    /// Returns the condition `Ready`.
    pub(super) fn ready(&self) -> Option<&PodCondition> {
        self.condition("Ready")
    }

    fn condition(&self, of_type: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| &*condition.r#type == of_type)
    }

    /// Returns the start of a true condition `DisruptionTarget` that another component than the kubelet set.
    fn disruption_start(&self) -> Option<Timestamp> {
        let condition = self.condition(DISRUPTION_TARGET)?;
        let is_by_control_plane =
            &*condition.status == "True" && &*condition.reason != TERMINATION_BY_KUBELET;
        is_by_control_plane.then(|| condition.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// Whether the status is that of a restartable init container.
    pub(super) fn is_sidecar(&self, status: &ContainerStatus) -> bool {
        let is_it = |one: &InitContainer| one.name == status.name && &*one.restart_policy == "Always";
        self.spec.init_containers.iter().any(is_it)
    }
}

impl From<Pod> for PodFields {
    fn from(pod: Pod) -> Self {
        let app = pod.status.container_statuses.iter().map(|status| status.restart_count).max();
        let sidecars = pod.status.init_container_statuses.iter().filter(|status| pod.is_sidecar(status));
        let sidecar = sidecars.map(|status| status.restart_count).max();
        let ready = pod.ready();
        let cost = pod.metadata.annotations.deletion_cost.as_deref();
        let affinity = pod.spec.affinity.as_ref().filter(|_| pod.spec.node_name.is_empty());
        Self {
            claims: pod.spec.volumes.iter().filter_map(|volume| volume.claim(&pod.metadata.name)).collect(),
            is_ready: ready.is_some_and(|ready| &*ready.status == "True"),
            ready_changed: ready.and_then(|ready| ready.last_transition_time),
            disruption_start: pod.disruption_start(),
            deletion_cost: cost.and_then(|cost| cost.parse().ok()).unwrap_or(0),
            restarts: (app.unwrap_or(0), sidecar.unwrap_or(0)),
            job: JobPodFields::of(&pod).map(Box::new),
            named_node: affinity.and_then(PodAffinity::named_node).unwrap_or_default(),
            node: pod.spec.node_name,
            phase: pod.status.phase,
        }
    }
}
