//! What a container or sandbox is to be made of, in the engine-neutral words of a pod.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::observed::PodUid;

/// Whose container it is; stored in its labels and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Pod UID.
    pub uid: PodUid,
    /// Pod name.
    pub pod: String,
    /// Pod namespace.
    pub namespace: String,
    /// Container name in the pod, `POD` for the sandbox.
    pub container: String,
    /// Restarts before this one.
    pub attempt: u32,
    /// Hash of what it is made from.
    pub hash: String,
}

impl Identity {
    /// The container's name in the engine: `k8s_<container>_<pod>_<namespace>_<uid>_<attempt>`.
    pub fn engine_name(&self) -> String {
        format!("k8s_{}_{}_{}_{}_{}", self.container, self.pod, self.namespace, self.uid, self.attempt)
    }
}

/// How a pod meets the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Network {
    /// The host's own.
    Host,
    /// An address of its own, given by the engine.
    Pod,
    /// A network namespace with nothing in it but its loopback: addresses, name resolution and ports are not the engine's.
    Bare,
}

/// A port of the host that leads to the pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostPort {
    /// Address on the host, `None` for all.
    pub host_ip: Option<IpAddr>,
    /// Port on the host.
    pub host_port: u16,
    /// Port in the pod.
    pub container_port: u16,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: String,
}

/// A sandbox to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct SandboxSpec {
    /// Whose it is.
    pub identity: Identity,
    /// The image that holds the namespaces.
    pub image: String,
    /// How it meets the network.
    pub network: Network,
    /// Ports of the host.
    pub host_ports: Vec<HostPort>,
    /// Host name in the pod; `None` with the host's network.
    pub hostname: Option<String>,
    /// Domain of the pod, for its fully qualified name.
    pub domain: Option<String>,
    /// Lines for /etc/hosts: name and address.
    pub host_aliases: Vec<(String, IpAddr)>,
    /// What goes to /etc/resolv.conf.
    pub dns: Dns,
    /// Share the host's process ids.
    pub host_pid: bool,
    /// Share the host's IPC.
    pub host_ipc: bool,
    /// One process namespace for the whole pod.
    pub share_process_namespace: bool,
    /// Kernel parameters of the pod's namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// The cgroup its containers lie in, as the engine names it.
    pub cgroup_parent: Option<String>,
    /// `seccomp=...`, `apparmor=...`, `label=...`, `no-new-privileges`.
    pub security_options: Vec<String>,
    /// User of its process, `uid[:gid]`.
    pub user: Option<String>,
}

/// Name resolution of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dns {
    /// Name servers; empty with the rest empty: as the engine has it.
    pub servers: Vec<String>,
    /// Search domains.
    pub searches: Vec<String>,
    /// Options.
    pub options: Vec<String>,
}

/// A container to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSpec {
    /// Whose it is.
    pub identity: Identity,
    /// Engine id of the sandbox it joins.
    pub sandbox_id: String,
    /// How the pod meets the network.
    pub network: Network,
    /// The image as the manifest names it.
    pub image: String,
    /// The image's engine id, what is really run.
    pub image_id: String,
    /// Replaces the image's ENTRYPOINT.
    pub command: Option<Vec<String>>,
    /// Replaces the image's CMD.
    pub args: Option<Vec<String>>,
    /// Working directory, the image's when `None`.
    pub working_dir: Option<String>,
    /// Environment, `NAME=value`, in order.
    pub env: Vec<String>,
    /// What is mounted where.
    pub mounts: Vec<Mount>,
    /// cpu, memory and the like.
    pub resources: Resources,
    /// The kernel's order of killing, -1000 to 1000.
    pub oom_score_adj: i32,
    /// The cgroup it lies in, as the engine names it.
    pub cgroup_parent: Option<String>,
    /// Who it is and what it may.
    pub security: Security,
    /// Keep standard input open.
    pub stdin: bool,
    /// Close it after the first client.
    pub stdin_once: bool,
    /// Give it a terminal.
    pub tty: bool,
    /// Share the host's process ids.
    pub host_pid: bool,
    /// Share the host's IPC.
    pub host_ipc: bool,
    /// Engine id of the container, or the sandbox, whose processes are also its own; `None` for a namespace of its own.
    pub processes_of: Option<String>,
    /// How long a restart waits should this attempt end.
    pub back_off: Duration,
    /// `terminationMessagePath`, `terminationMessagePolicy` and the file on the host that takes the message.
    pub termination: Termination,
    /// `stopSignal` of the container's lifecycle, the image's when `None`.
    pub stop_signal: Option<String>,
    /// Further labels, from the pod.
    pub labels: BTreeMap<String, String>,
}

/// Where a container leaves its last words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Termination {
    /// Path in the container.
    pub path: String,
    /// `File` or `FallbackToLogsOnError`.
    pub policy: String,
    /// The file on the host that is mounted there.
    pub file: String,
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// Path on the host.
    pub source: String,
    /// Path in the container.
    pub target: String,
    /// No writing.
    pub read_only: bool,
    /// `rprivate`, `rslave` or `rshared`.
    pub propagation: String,
}

/// cpu, memory and the like, in the kernel's units.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resources {
    /// cgroup v1 shares, 2 to 262144.
    pub cpu_shares: Option<i64>,
    /// Microseconds a period.
    pub cpu_quota: Option<i64>,
    /// Microseconds.
    pub cpu_period: Option<i64>,
    /// Bytes; swap is held at the same.
    pub memory_bytes: Option<i64>,
    /// Processes.
    pub pids: Option<i64>,
}

/// Who a container is and what it may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// `uid[:gid]`, the image's when `None`.
    pub user: Option<String>,
    /// Further groups.
    pub groups: Vec<String>,
    /// All there is.
    pub privileged: bool,
    /// Capabilities beyond the engine's default, without `CAP_`.
    pub add: Vec<String>,
    /// Capabilities taken from the engine's default, without `CAP_`.
    pub drop: Vec<String>,
    /// The root file system is not writable.
    pub read_only_root: bool,
    /// `seccomp=...`, `apparmor=...`, `label=...`, `no-new-privileges`, `systempaths=unconfined`.
    pub options: Vec<String>,
}
