//! Types of the node's status report.

use std::collections::BTreeMap;

use crate::observed::Timestamp;

/// The annotation of a Node with the directory of its `local-path` volumes, for the provisioner of the master. Nodes
/// may not write annotations that begin with `coracle.io/`.
pub const LOCAL_PATH_DIRECTORY: &str = "kubelet.coracle.io/local-path-directory";
/// The directory of `local-path` volumes below the kubelet's root directory.
pub const LOCAL_VOLUMES: &str = "local-path";

/// The status report of the node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeReport {
    /// The default labels and those of `--node-labels`.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Taints, each as key, value and effect.
    pub taints: Vec<(String, String, String)>,
    /// When the node was first reported. If that is unknown, when the kubelet started.
    pub created_at: Option<Timestamp>,
    /// The capacity as quantities: `cpu`, `memory`, `pods`, `ephemeral-storage`.
    pub capacity: BTreeMap<String, String>,
    /// The allocatable part of the capacity.
    pub allocatable: BTreeMap<String, String>,
    /// Conditions: `Ready`, `MemoryPressure`, `DiskPressure`, `PIDPressure`, `NetworkUnavailable`.
    pub conditions: Vec<NodeCondition>,
    /// Address types, `InternalIP` or `Hostname`, with the addresses.
    pub addresses: Vec<(String, String)>,
    /// The port of the kubelet's API, or `None` if it is disabled.
    pub kubelet_port: Option<u16>,
    /// Versions and identifiers of the machine.
    pub info: NodeInfo,
    /// Images on the node, the largest first.
    pub images: Vec<NodeImage>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NodeCondition {
    /// The condition type, such as `Ready`.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason in CamelCase.
    pub reason: String,
    /// The message: what the problem is, and what to do.
    pub message: String,
    /// When the condition was last checked.
    pub last_heartbeat: Timestamp,
    /// When the status last changed.
    pub last_transition: Timestamp,
}

/// Versions and identifiers of the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeInfo {
    /// The machine ID, from /etc/machine-id.
    pub machine_id: String,
    /// The system UUID, from the firmware.
    pub system_uuid: String,
    /// The boot ID, which changes with each boot.
    pub boot_id: String,
    /// The kernel version, such as `6.1.0-18-amd64`.
    pub kernel_version: String,
    /// The operating system, such as `Debian GNU/Linux 12 (bookworm)`.
    pub os_image: String,
    /// The runtime version, such as `docker://24.0.5`.
    pub container_runtime_version: String,
    /// The kubelet version, such as `v1.36.0+coracle-0.1.0`.
    pub kubelet_version: String,
    /// The operating system type, such as `linux`.
    pub operating_system: String,
    /// The architecture, such as `amd64`.
    pub architecture: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeImage {
    pub names: Vec<String>,
    /// Size on disk in bytes.
    pub size_bytes: u64,
}
