//! Pods.

use jiff::Timestamp;
use serde::Deserialize;

use super::meta::{Condition, ObjectMeta};
use super::node::Toleration;
use super::resources::ResourceRequirements;
use super::selector::{LabelSelector, NodeSelector, NodeSelectorTerm};
use super::values::{List, StringMap, time};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: ObjectMeta<PodAnnotations>,
    /// The desired state, `spec`.
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodAnnotations {
    /// Set in mirror pods of static pods.
    #[serde(rename = "kubernetes.io/config.mirror")]
    pub mirror: Option<Box<str>>,
}

/// `spec` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Node that runs the pod. Empty for a pending pod.
    pub node_name: Box<str>,
    /// Host name. If it is empty, the host name is the name of the pod.
    pub hostname: Box<str>,
    /// Headless Service that publishes the host name.
    pub subdomain: Box<str>,
    /// Scheduler that is responsible for the pod.
    pub scheduler_name: Box<str>,
    pub priority_class_name: Box<str>,
    /// Priority. The pod with the highest priority is scheduled first.
    pub priority: i64,
    /// Preemption policy: `Never` or `PreemptLowerPriority`.
    pub preemption_policy: Box<str>,
    /// Gates that keep the pod from being scheduled.
    pub scheduling_gates: List<SchedulingGate>,
    /// Labels that the node must have.
    pub node_selector: StringMap,
    pub affinity: Option<Box<Affinity>>,
    pub tolerations: List<Toleration>,
    pub topology_spread_constraints: List<TopologySpreadConstraint>,
    /// How long the pod may run.
    pub active_deadline_seconds: Option<i64>,
    /// Resource amounts that the runtime class adds.
    pub overhead: StringMap,
    pub volumes: List<Volume>,
    /// Resources of the whole pod.
    pub resources: ResourceRequirements,
    /// App containers.
    pub containers: List<Container>,
    /// Init containers and sidecars.
    pub init_containers: List<Container>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct SchedulingGate {
    pub name: Box<str>,
}

/// Affinity of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    pub node_affinity: NodeAffinity,
    pub pod_affinity: PodAffinity,
    pub pod_anti_affinity: PodAffinity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// Required terms. One of them must match.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: List<PreferredSchedulingTerm>,
}

/// A preferred node selector term.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct PreferredSchedulingTerm {
    /// Weight, 1 to 100.
    pub weight: i64,
    pub preference: NodeSelectorTerm,
}

/// Affinity or anti-affinity to pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    /// Required terms. All of them must match.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: List<PodAffinityTerm>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: List<WeightedPodAffinityTerm>,
}

/// A preferred pod affinity term.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WeightedPodAffinityTerm {
    /// Weight, 1 to 100.
    pub weight: i64,
    pub pod_affinity_term: PodAffinityTerm,
}

/// Selects pods that run in the same topology domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodAffinityTerm {
    /// Selects pods. `None` selects no pods.
    pub label_selector: Option<LabelSelector>,
    /// Keys of labels. Matching pods must have the same values of these labels as the pod itself.
    pub match_label_keys: List<Box<str>>,
    /// Keys of labels. Matching pods must not have the same values of these labels as the pod itself.
    pub mismatch_label_keys: List<Box<str>>,
    /// Selects namespaces.
    pub namespace_selector: Option<LabelSelector>,
    /// Namespaces of the pods. If there are none and no selector, the pod's own namespace is used.
    pub namespaces: List<Box<str>>,
    /// The node label that defines the topology. Nodes with the same value are in the same topology domain.
    pub topology_key: Box<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// Maximum difference of the counts.
    pub max_skew: Option<i64>,
    /// Minimum number of topology domains. With fewer domains, the smallest count is taken as 0.
    pub min_domains: Option<i64>,
    /// The node label that defines the topology. Nodes with the same value are in the same topology domain.
    pub topology_key: Box<str>,
    /// What the scheduler does if the constraint is violated: `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: Box<str>,
    /// Selects pods. `None` selects no pods.
    pub label_selector: Option<LabelSelector>,
    /// Keys of labels. Matching pods must have the same values of these labels as the pod itself.
    pub match_label_keys: List<Box<str>>,
    /// How the node affinity of the pod is handled: `Honor` or `Ignore`.
    pub node_affinity_policy: Box<str>,
    /// How the taints of nodes are handled: `Honor` or `Ignore`.
    pub node_taints_policy: Box<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    pub name: Box<str>,
    pub persistent_volume_claim: Option<ClaimVolumeSource>,
    /// A claim that is created for the pod.
    pub ephemeral: Option<EphemeralVolumeSource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimVolumeSource {
    /// Name of the claim, in the namespace of the pod.
    pub claim_name: Box<str>,
}

/// A generic ephemeral volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct EphemeralVolumeSource {}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    pub name: Box<str>,
    pub image: Box<str>,
    /// Restart policy. `Always` makes an init container a sidecar.
    pub restart_policy: Box<str>,
    pub ports: List<ContainerPort>,
    pub resources: ResourceRequirements,
}

impl Container {
    /// Whether the container is a restartable init container.
    pub fn is_sidecar(&self) -> bool {
        &*self.restart_policy == "Always"
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    pub name: Box<str>,
    pub container_port: i64,
    /// Port on the node, or 0 if there is none.
    pub host_port: i64,
    /// Address on the node. Empty for all addresses.
    #[serde(rename = "hostIP")]
    pub host_ip: Box<str>,
    /// Protocol: `TCP`, `UDP` or `SCTP`. Empty means `TCP`.
    pub protocol: Box<str>,
}

/// `status` of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// Phase: `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: Box<str>,
    pub conditions: List<Condition>,
    /// Node on which preemption makes room for the pod.
    pub nominated_node_name: Box<str>,
    /// Primary IP address. Empty if there is none.
    #[serde(rename = "podIP")]
    pub pod_ip: Box<str>,
    /// All IP addresses.
    #[serde(rename = "podIPs")]
    pub pod_ips: List<PodIp>,
    /// When the kubelet accepted the pod.
    #[serde(deserialize_with = "time")]
    pub start_time: Option<Timestamp>,
    /// Statuses of app containers.
    pub container_statuses: List<ContainerStatus>,
    pub init_container_statuses: List<ContainerStatus>,
}

impl PodStatus {
    /// Whether the pod has terminated.
    pub fn is_terminal(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }
}

/// An IP address of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodIp {
    /// Address.
    pub ip: Box<str>,
}

/// Actual resources of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Name of the container.
    pub name: Box<str>,
    /// Resources in effect. `None` if the kubelet does not report them.
    pub resources: Option<ResourceRequirements>,
    /// Resources that the kubelet has allocated.
    pub allocated_resources: StringMap,
}
