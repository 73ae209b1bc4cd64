//! Nodes, taints and tolerations.

use jiff::Timestamp;
use serde::Deserialize;

use super::meta::{Condition, ObjectMeta};
use super::values::{List, StringMap, time};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Node {
    pub metadata: ObjectMeta<StringMap>,
    /// The desired state, `spec`.
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

/// `spec` of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    pub taints: List<Taint>,
    /// Whether the node is cordoned: it accepts only new pods that tolerate this.
    pub unschedulable: bool,
    /// The first pod CIDR.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Box<str>,
    /// All pod CIDRs, one per IP family.
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: List<Box<str>>,
}

/// `status` of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    /// Resource amounts that pods may use.
    pub allocatable: StringMap,
    /// Images on the node.
    pub images: List<ContainerImage>,
    pub addresses: List<NodeAddress>,
    pub conditions: List<Condition>,
    /// Facts about the node.
    pub node_info: NodeSystemInfo,
    /// Ports of the kubelet.
    pub daemon_endpoints: NodeDaemonEndpoints,
}

/// An image on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerImage {
    /// Names of the image.
    pub names: List<Box<str>>,
    pub size_bytes: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// Type of the address: `InternalIP`, `ExternalIP`, `Hostname`, `InternalDNS` or `ExternalDNS`.
    pub r#type: Box<str>,
    /// The IP address or name.
    pub address: Box<str>,
}

/// Facts about a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSystemInfo {
    pub kubelet_version: Box<str>,
    #[serde(rename = "machineID")]
    pub machine_id: Box<str>,
}

/// Ports of the daemons on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeDaemonEndpoints {
    pub kubelet_endpoint: DaemonEndpoint,
}

/// A port of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DaemonEndpoint {
    /// Port number; 0 if it is not set.
    pub port: i64,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    /// Taint key.
    pub key: Box<str>,
    /// Taint value.
    pub value: Box<str>,
    /// Effect of the taint: `NoSchedule`, `NoExecute` or `PreferNoSchedule`.
    pub effect: Box<str>,
    /// When the taint was added. `None` for most taints other than `NoExecute`.
    #[serde(deserialize_with = "time")]
    pub time_added: Option<Timestamp>,
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Toleration {
    /// Taint key. Empty for all keys.
    pub key: Box<str>,
    /// Operator: `Equal` or `Exists`. Empty means `Equal`.
    pub operator: Box<str>,
    /// Taint value.
    pub value: Box<str>,
    /// Taint effect. Empty for all effects.
    pub effect: Box<str>,
    /// How long a `NoExecute` taint is tolerated. `None` means forever.
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// Whether a pod with this toleration tolerates the taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let any_value = &*self.operator == "Exists";
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key == taint.key || self.key.is_empty() && any_value)
            && (any_value || self.value == taint.value)
    }
}

impl List<Toleration> {
    /// Whether one of the tolerations tolerates the taint.
    pub fn tolerate(&self, taint: &Taint) -> bool {
        self.iter().any(|toleration| toleration.tolerates(taint))
    }

    /// Returns the first NoSchedule or NoExecute taint that is not tolerated.
    pub fn first_untolerated<'a>(&self, taints: &'a [Taint]) -> Option<&'a Taint> {
        let repels = |taint: &&Taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute");
        taints.iter().filter(repels).find(|taint| !self.tolerate(taint))
    }
}
