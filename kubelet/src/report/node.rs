//! What there is to tell of the node itself.

use std::collections::BTreeMap;

use crate::observed::Timestamp;

/// The latest about the node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeReport {
    /// Labels: those every node has and those of `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Taints: key, value, effect.
    pub taints: Vec<(String, String, String)>,
    /// When the node was first told of; the kubelet's start when nobody knows better.
    pub created_at: Option<Timestamp>,
    /// All there is: `cpu`, `memory`, `pods`, `ephemeral-storage`, as quantities.
    pub capacity: BTreeMap<String, String>,
    /// What pods may have of it.
    pub allocatable: BTreeMap<String, String>,
    /// How it is: `Ready`, `MemoryPressure`, `DiskPressure`, `PIDPressure`.
    pub conditions: Vec<NodeCondition>,
    /// `InternalIP`, `Hostname`, and the address.
    pub addresses: Vec<(String, String)>,
    /// Where its kubelet answers masters, if it does.
    pub kubelet_port: Option<u16>,
    /// What it is made of.
    pub info: NodeInfo,
    /// Images it holds, the largest first.
    pub images: Vec<NodeImage>,
}

/// One condition of the node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeCondition {
    /// `Ready` and the like.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word in CamelCase.
    pub reason: String,
    /// What is the matter, and what to do.
    pub message: String,
    /// When it was last found so.
    pub last_heartbeat: Timestamp,
    /// Since when it is so.
    pub last_transition: Timestamp,
}

/// What a node is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeInfo {
    /// From /etc/machine-id.
    pub machine_id: String,
    /// From the firmware.
    pub system_uuid: String,
    /// Another one each boot.
    pub boot_id: String,
    /// `6.1.0-18-amd64`.
    pub kernel_version: String,
    /// `Debian GNU/Linux 12 (bookworm)`.
    pub os_image: String,
    /// `docker://24.0.5`.
    pub container_runtime_version: String,
    /// `v1.36.0+coracle-0.1.0`.
    pub kubelet_version: String,
    /// `linux`.
    pub operating_system: String,
    /// `amd64`.
    pub architecture: String,
}

/// An image the node holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeImage {
    /// All its names.
    pub names: Vec<String>,
    /// Size on disk.
    pub size_bytes: u64,
}
