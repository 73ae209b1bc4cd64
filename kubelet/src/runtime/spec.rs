//! Engine-neutral specs of containers and sandboxes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::observed::PodUid;

/// The identity of a container. It is stored in the container's labels and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub uid: PodUid,
    /// Pod name.
    pub pod: String,
    /// Pod namespace.
    pub namespace: String,
    /// Container name in the pod, `POD` for the sandbox.
    pub container: String,
    /// Restart count.
    pub attempt: u32,
    /// Hash of the spec.
    pub hash: String,
}

impl Identity {
    /// The name in the engine: `k8s_<container>_<pod>_<namespace>_<uid>_<attempt>`.
    pub fn engine_name(&self) -> String {
        format!("k8s_{}_{}_{}_{}_{}", self.container, self.pod, self.namespace, self.uid, self.attempt)
    }
}

/// Network mode of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Network {
    /// The host network.
    Host,
    /// A network namespace with an address that the engine assigns.
    Pod,
    /// A network namespace with only a loopback interface. The kubelet provides addresses, DNS and host ports.
    Bare,
}

/// A host port that is forwarded to the pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostPort {
    /// Address of the host, or `None` for all addresses.
    pub host_ip: Option<IpAddr>,
    pub host_port: u16,
    /// Port in the pod.
    pub container_port: u16,
    /// The protocol: `tcp`, `udp` or `sctp`.
    pub protocol: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SandboxSpec {
    /// Identity of the sandbox.
    pub identity: Identity,
    /// The pause image.
    pub image: String,
    /// Network mode.
    pub network: Network,
    pub host_ports: Vec<HostPort>,
    /// Host name in the pod; `None` with host network.
    pub hostname: Option<String>,
    /// Domain for the fully qualified host name.
    pub domain: Option<String>,
    /// Additional entries of /etc/hosts: name and address.
    pub host_aliases: Vec<(String, IpAddr)>,
    /// Content of /etc/resolv.conf.
    pub dns: Dns,
    /// Whether to use the host's pid namespace.
    pub host_pid: bool,
    /// Whether to use the host's IPC namespace.
    pub host_ipc: bool,
    /// Whether the containers of the pod share one pid namespace.
    pub share_process_namespace: bool,
    /// Sysctls of the pod's namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// Parent cgroup, in the format of the engine.
    pub cgroup_parent: Option<String>,
    /// Security options: `seccomp=...`, `apparmor=...`, `label=...`, `no-new-privileges`.
    pub security_options: Vec<String>,
    /// User of the sandbox process, `uid[:gid]`.
    pub user: Option<String>,
}

/// DNS configuration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dns {
    /// Name servers. If all lists are empty, the engine's defaults apply.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    pub options: Vec<String>,
    /// Whether the DNS server of the node comes first. The pod network adds its address, because it is known only when
    /// the pod gets its own.
    pub uses_node_dns: bool,
}

impl Dns {
    /// Removes loopback servers, because a pod with its own network cannot reach those of the host.
    #[must_use]
    pub fn without_loopback(mut self) -> Self {
        self.servers.retain(|server| !server.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()));
        self
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSpec {
    /// Identity of the container.
    pub identity: Identity,
    /// Engine id of the container's sandbox.
    pub sandbox_id: String,
    /// Network mode of the pod.
    pub network: Network,
    /// The image as the manifest names it.
    pub image: String,
    /// Engine id of the image. The container runs this image.
    pub image_id: String,
    /// The command that replaces the image's ENTRYPOINT.
    pub command: Option<Vec<String>>,
    /// The arguments that replace the image's CMD.
    pub args: Option<Vec<String>>,
    /// Working directory. `None` for the working directory of the image.
    pub working_dir: Option<String>,
    /// Environment in order, each as `NAME=value`.
    pub env: Vec<String>,
    /// Volume mounts.
    pub mounts: Vec<Mount>,
    /// Resource limits.
    pub resources: Resources,
    /// `oom_score_adj`, -1000 to 1000.
    pub oom_score_adj: i32,
    /// Parent cgroup, in the format of the engine.
    pub cgroup_parent: Option<String>,
    /// User, capabilities and security options.
    pub security: Security,
    /// Whether to keep standard input open.
    pub stdin: bool,
    /// Whether to close standard input after the first client.
    pub stdin_once: bool,
    /// Whether to allocate a terminal.
    pub tty: bool,
    /// Whether to use the host's pid namespace.
    pub host_pid: bool,
    /// Whether to use the host's IPC namespace.
    pub host_ipc: bool,
    /// Engine id of the container or sandbox whose pid namespace the container joins, or `None` for a namespace of
    /// its own.
    pub processes_of: Option<String>,
    /// Restart back-off if this attempt ends.
    pub back_off: Duration,
    /// Termination message settings.
    pub termination: Termination,
    /// Stop signal of the container's lifecycle. `None` for the stop signal of the image.
    pub stop_signal: Option<String>,
    /// Additional labels, from the pod.
    pub labels: BTreeMap<String, String>,
}

/// Termination message settings of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Termination {
    /// The field `terminationMessagePath`, a path in the container.
    pub path: String,
    /// The field `terminationMessagePolicy`: `File` or `FallbackToLogsOnError`.
    pub policy: String,
    /// The file on the host that is mounted at this path.
    pub file: String,
}

/// A bind mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// Path on the host.
    pub source: String,
    /// Path in the container.
    pub target: String,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// The mount propagation: `rprivate`, `rslave` or `rshared`.
    pub propagation: String,
}

/// Resource limits in the units of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resources {
    /// CPU shares of cgroup v1, from 2 to 262144.
    pub cpu_shares: Option<i64>,
    /// CPU quota in microseconds per period.
    pub cpu_quota: Option<i64>,
    /// CPU period in microseconds.
    pub cpu_period: Option<i64>,
    /// Memory limit in bytes. Swap is disabled.
    pub memory_bytes: Option<i64>,
    /// Maximum number of processes.
    pub pids: Option<i64>,
}

/// Security settings of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// User as `uid[:gid]`. `None` for the user of the image.
    pub user: Option<String>,
    /// Supplementary groups.
    pub groups: Vec<String>,
    /// Whether the container is privileged.
    pub privileged: bool,
    /// Added capabilities, without the prefix `CAP_`.
    pub add: Vec<String>,
    /// Dropped capabilities, without the prefix `CAP_`.
    pub drop: Vec<String>,
    /// Whether the root file system is read-only.
    pub read_only_root: bool,
    /// Security options: `seccomp=...`, `apparmor=...`, `label=...`, `no-new-privileges`, `systempaths=unconfined`.
    pub options: Vec<String>,
}
