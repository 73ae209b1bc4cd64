//! Observed state: facts about the containers of this node, from the last successful inspection.

mod pressure;
pub mod probes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub use jiff::Timestamp;

pub use self::pressure::{Pressure, PressureStates, active_pressures};

/// Container name of a pod's sandbox.
pub const SANDBOX: &str = "POD";

/// Condition of a pod whose latest version is pending or rejected while the previous version runs. The type has a
/// domain of this project. Stock Kubernetes has none for edits of static pods; `PodResizePending` covers only
/// resizes.
pub const EDIT_PENDING: &str = "coracle.dev/EditPending";

/// Reason of an evicted pod, and of a pod that the node rejects under pressure.
pub const EVICTED: &str = "Evicted";

/// UID of a pod: the value of `metadata.uid` and of the label `io.kubernetes.pod.uid`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodUid(Arc<str>);

impl PodUid {
    /// Creates a UID from its text.
    pub fn new(uid: &str) -> Self {
        Self(Arc::from(uid))
    }

    /// The UID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The sandboxes and containers of one pod, including exited ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Name of the pod, as the labels of its containers store it.
    pub name: String,
    /// Namespace of the pod, as the labels of its containers store it.
    pub namespace: String,
    /// The sandboxes, newest attempt first.
    pub sandboxes: Vec<Sandbox>,
    /// The containers, sorted by name, newest attempt first.
    pub containers: Vec<Container>,
    /// Engine ids of containers that were listed but not inspected yet. No action is planned until they are
    /// inspected.
    pub uninspected: BTreeSet<String>,
}

impl Pod {
    /// The newest sandbox, in any state.
    pub fn sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.first()
    }

    /// The newest container of this name, in any state.
    pub fn newest(&self, name: &str) -> Option<&Container> {
        self.containers.iter().find(|c| c.name == name)
    }

    /// All containers of this name, newest attempt first.
    pub fn attempts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Container> {
        self.containers.iter().filter(move |c| c.name == name)
    }

    /// Whether the engine has no container of the pod.
    pub fn is_gone(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty() && self.uninspected.is_empty()
    }

    /// Inserts a container, or replaces the one with the same id.
    pub fn put_container(&mut self, container: Container) {
        self.containers.retain(|c| c.id != container.id);
        self.containers.push(container);
        self.containers.sort_by(|a, b| {
            a.name.cmp(&b.name).then(b.attempt.cmp(&a.attempt)).then(b.created_at.cmp(&a.created_at))
        });
    }

    /// Inserts a sandbox, or replaces the one with the same id.
    pub fn put_sandbox(&mut self, sandbox: Sandbox) {
        self.sandboxes.retain(|s| s.id != sandbox.id);
        self.sandboxes.push(sandbox);
        self.sandboxes.sort_by(|a, b| b.attempt.cmp(&a.attempt).then(b.created_at.cmp(&a.created_at)));
    }

    /// Removes the sandbox or container with this engine id.
    pub fn remove(&mut self, id: &str) {
        self.sandboxes.retain(|s| s.id != id);
        self.containers.retain(|c| c.id != id);
    }
}

/// A sandbox: the container that holds a pod's namespaces and IP addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Sandbox {
    /// Engine id.
    pub id: String,
    /// Number of earlier sandboxes of the pod, as the label of the sandbox stores it.
    pub attempt: u32,
    /// Hash of the sandbox spec, as the label of the sandbox stores it.
    pub hash: String,
    /// Lifecycle state.
    pub state: State,
    /// IP addresses, primary first. They are empty with host network, or before the sandbox runs.
    pub ips: Vec<IpAddr>,
    /// True if the engine attaches no network, because the kubelet configures the network namespace.
    pub is_bare: bool,
    /// Creation time.
    pub created_at: Timestamp,
}

/// A container of a pod, running or exited.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// Engine id.
    pub id: String,
    /// Container name in the pod.
    pub name: String,
    /// Restart count, as the label of the container stores it.
    pub attempt: u32,
    /// Hash of the container spec, as the label of the container stores it.
    pub hash: String,
    /// Restart back-off after this attempt ends. A label of the container stores it.
    pub back_off: Duration,
    /// The image as the manifest names it.
    pub image: String,
    /// Engine id of the image.
    pub image_id: String,
    /// Id of the sandbox whose namespaces the container joined, as the label of the container stores it.
    pub sandbox_id: String,
    /// Lifecycle state.
    pub state: State,
    /// Creation time.
    pub created_at: Timestamp,
    /// Stop signal of the image or container, or `None` for SIGTERM.
    pub stop_signal: Option<String>,
    /// Labels that later inspections need: termination message path and policy, and grace period.
    pub notes: BTreeMap<String, String>,
    /// Termination message of an exited container.
    pub message: Option<String>,
}

/// Lifecycle state of a container.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// The container was created but never started.
    Created,
    /// The container is running. A paused container counts as running.
    Running {
        /// Start time.
        started_at: Timestamp,
        /// Host pid of its first process.
        pid: u32,
    },
    /// The container has exited, or failed to start.
    Exited(Exit),
}

impl State {
    /// Whether the container is running.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }
}

/// How a container terminated.
#[derive(Clone, Debug, PartialEq)]
pub struct Exit {
    /// Exit code. After signal n it is 128 + n.
    pub code: i32,
    /// Whether the kernel killed the container for lack of memory.
    pub oom_killed: bool,
    /// Error of the engine if it could not start the container.
    pub error: Option<String>,
    /// Start time, or `None` if the container never started.
    pub started_at: Option<Timestamp>,
    /// Exit time.
    pub finished_at: Timestamp,
}
