//! What a pod's containers depend on beside the pod itself: facts of the node and of its engine.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;

use crate::observed::Sandbox;
use crate::runtime::spec::Dns;

/// Facts of the node; the same for all its pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The node's name.
    pub node_name: String,
    /// Addresses of the node, the primary one first.
    pub host_ips: Vec<IpAddr>,
    /// Processor time pods may use, thousandths of a core.
    pub cpu_milli: i64,
    /// Memory pods may use.
    pub memory_bytes: i64,
    /// Disk pods may use.
    pub ephemeral_storage_bytes: i64,
    /// Name servers of the cluster; empty for none.
    pub cluster_dns: Vec<IpAddr>,
    /// The cluster's domain; empty for none.
    pub cluster_domain: String,
    /// The host's own `/etc/resolv.conf`.
    pub host_dns: Dns,
    /// How cgroups are named; `None` when pods get no cgroup of their own.
    pub cgroup_driver: Option<CgroupDriver>,
    /// The cgroup all pods lie in: empty or an absolute path without a slash at the end.
    pub cgroup_root: String,
    /// Processes a container may have.
    pub pids_limit: Option<i64>,
    /// Sysctls pods may set beyond the safe ones: names, or prefixes ending in `*`.
    pub allowed_unsafe_sysctls: Vec<String>,
}

impl Facts {
    /// The pod's addresses: the node's in the host's network, else its sandbox's, none while it has none.
    pub fn pod_ips<'a>(&'a self, pod: &Pod, sandbox: Option<&'a Sandbox>) -> &'a [IpAddr] {
        if super::host_network(pod) { &self.host_ips } else { sandbox.map_or(&[], |sandbox| &sandbox.ips) }
    }
}

/// Who makes cgroups, which decides how they are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupDriver {
    /// Paths.
    Cgroupfs,
    /// Slices.
    Systemd,
}
