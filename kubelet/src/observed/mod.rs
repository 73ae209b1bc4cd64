//! What is there: plain facts about the containers of this node, as the last successful look saw them.

pub mod probes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

pub use jiff::Timestamp;

/// The name a pod's sandbox has where containers are told apart by name.
pub const SANDBOX: &str = "POD";

/// The identity of a pod on this node; the value of `metadata.uid` and of the label `io.kubernetes.pod.uid`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodUid(Arc<str>);

impl PodUid {
    /// Wraps the text of a UID as it stands in a manifest or a label.
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

/// All that is there of one pod: its sandboxes and its containers, dead ones included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// `metadata.name` of the pod, from the labels.
    pub name: String,
    /// `metadata.namespace` of the pod, from the labels.
    pub namespace: String,
    /// Sandboxes, newest attempt first.
    pub sandboxes: Vec<Sandbox>,
    /// Containers, sorted by name, newest attempt first.
    pub containers: Vec<Container>,
    /// Engine ids of what is known to be there and could not be looked at yet; nothing is decided before.
    pub unseen: BTreeSet<String>,
}

impl Pod {
    /// The newest sandbox, whatever its state.
    pub fn sandbox(&self) -> Option<&Sandbox> {
        self.sandboxes.first()
    }

    /// The newest container of that name, whatever its state.
    pub fn newest(&self, name: &str) -> Option<&Container> {
        self.containers.iter().find(|c| c.name == name)
    }

    /// All containers of that name, newest attempt first.
    pub fn attempts<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Container> {
        self.containers.iter().filter(move |c| c.name == name)
    }

    /// True when nothing of the pod is left in the engine.
    pub fn is_gone(&self) -> bool {
        self.sandboxes.is_empty() && self.containers.is_empty() && self.unseen.is_empty()
    }

    /// Puts a container in its place: a newer record of the same id replaces the older one.
    pub fn put_container(&mut self, container: Container) {
        self.containers.retain(|c| c.id != container.id);
        self.containers.push(container);
        self.containers.sort_by(|a, b| {
            a.name.cmp(&b.name).then(b.attempt.cmp(&a.attempt)).then(b.created_at.cmp(&a.created_at))
        });
    }

    /// Puts a sandbox in its place: a newer record of the same id replaces the older one.
    pub fn put_sandbox(&mut self, sandbox: Sandbox) {
        self.sandboxes.retain(|s| s.id != sandbox.id);
        self.sandboxes.push(sandbox);
        self.sandboxes.sort_by(|a, b| b.attempt.cmp(&a.attempt).then(b.created_at.cmp(&a.created_at)));
    }

    /// Takes out whatever has that engine id.
    pub fn remove(&mut self, id: &str) {
        self.sandboxes.retain(|s| s.id != id);
        self.containers.retain(|c| c.id != id);
    }
}

/// The container that holds a pod's namespaces and addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Sandbox {
    /// Engine id.
    pub id: String,
    /// How many sandboxes this pod had before, from the labels.
    pub attempt: u32,
    /// Hash of what the sandbox was made from, from the labels.
    pub hash: String,
    /// Its life.
    pub state: State,
    /// Addresses, the primary one first; empty on the host's network or before it runs.
    pub ips: Vec<IpAddr>,
    /// The engine leaves its network empty: whatever is there was put there by the kubelet.
    pub is_bare: bool,
    /// When the engine made it.
    pub created_at: Timestamp,
}

/// One container of a pod, running or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// Engine id.
    pub id: String,
    /// The name in the pod.
    pub name: String,
    /// How often it was restarted before, from the labels.
    pub attempt: u32,
    /// Hash of what the container was made from, from the labels.
    pub hash: String,
    /// How long a restart waits should this attempt end, from the labels.
    pub back_off: Duration,
    /// The image as the manifest names it.
    pub image: String,
    /// The image's id in the engine.
    pub image_id: String,
    /// The sandbox whose namespaces it joined, from the labels.
    pub sandbox_id: String,
    /// Its life.
    pub state: State,
    /// When the engine made it.
    pub created_at: Timestamp,
    /// The signal its image or definition wants it ended by; `None` for SIGTERM.
    pub stop_signal: Option<String>,
    /// Labels beyond the identity that a later look needs (termination message path and policy, grace).
    pub notes: BTreeMap<String, String>,
    /// The termination message, once it has ended and one was read.
    pub message: Option<String>,
}

/// Where a container is in its life.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Made, never started.
    Created,
    /// Running (or paused by someone, which is the same to a pod).
    Running {
        /// When it started.
        started_at: Timestamp,
        /// Its first process on the host.
        pid: u32,
    },
    /// Ended, or failed to start.
    Exited(Exit),
}

impl State {
    /// True while its processes live.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Exit {
    /// Exit code of its first process; 128 + n when signal n ended it.
    pub code: i32,
    /// The kernel ended it for lack of memory.
    pub oom_killed: bool,
    /// What the engine said when it could not run it.
    pub error: Option<String>,
    /// When it had started; `None` when it never did.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
}
