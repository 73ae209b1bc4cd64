//! Facts of the node and its engine that affect the specs of containers.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;

use crate::observed::Sandbox;
use crate::runtime::spec::Dns;

/// Facts of the node. They are the same for all pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The node's name.
    pub node_name: String,
    /// Addresses of the node, the primary one first.
    pub host_ips: Vec<IpAddr>,
    /// Allocatable CPU in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory of the machine in bytes.
    pub memory_bytes: i64,
    /// Memory in bytes that hard eviction thresholds keep free. The rest is allocatable.
    pub reserved_memory_bytes: i64,
    /// Size of the file system for local ephemeral storage, in bytes.
    pub ephemeral_storage_bytes: i64,
    /// Ephemeral storage in bytes that hard eviction thresholds keep free. The rest is allocatable.
    pub reserved_storage_bytes: i64,
    /// Name servers of the cluster; empty for none.
    pub cluster_dns: Vec<IpAddr>,
    /// Whether the DNS server of the node serves the cluster's names, in place of `cluster_dns`.
    pub node_dns: bool,
    /// The cluster's domain; empty for none.
    pub cluster_domain: String,
    /// The DNS configuration of the host, from its resolv.conf.
    pub host_dns: Dns,
    /// Whether that file is another one than `/etc/resolv.conf`, so that the engine cannot copy it.
    pub has_own_resolv_conf: bool,
    /// The cgroup driver, or `None` if pods have no cgroup of their own.
    pub cgroup_driver: Option<CgroupDriver>,
    /// Root cgroup of pods. It is empty, or an absolute path without trailing slash.
    pub cgroup_root: String,
    /// Maximum number of processes per container.
    pub pids_limit: Option<i64>,
    /// Whether AppArmor is enabled in the kernel; `None` if that is unknown.
    pub app_armor: Option<bool>,
    /// Sysctls allowed beyond the safe ones: names, or prefixes with a trailing `*`.
    pub allowed_unsafe_sysctls: Vec<String>,
}

impl Facts {
    /// Allocatable memory in bytes.
    pub fn allocatable_memory_bytes(&self) -> i64 {
        self.memory_bytes.saturating_sub(self.reserved_memory_bytes)
    }

    /// Allocatable ephemeral storage in bytes.
    pub fn allocatable_storage_bytes(&self) -> i64 {
        self.ephemeral_storage_bytes.saturating_sub(self.reserved_storage_bytes)
    }

    /// The IP addresses of a pod. With host network, they are those of the node, otherwise those of its sandbox.
    pub fn pod_ips<'a>(&'a self, pod: &Pod, sandbox: Option<&'a Sandbox>) -> &'a [IpAddr] {
        if super::host_network(pod) { &self.host_ips } else { sandbox.map_or(&[], |sandbox| &sandbox.ips) }
    }
}

/// The cgroup driver, which determines the names of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupDriver {
    /// cgroupfs: the name of a cgroup is a path.
    Cgroupfs,
    /// systemd: the name of a cgroup is the name of a slice.
    Systemd,
}
