//! Computes pod actions: a pure function of desired pod, observed state and history.
//!
//! [`compute_pod_actions`] evaluates the whole pod at one moment and returns all actions that may start now. The pod worker
//! calls it after every change, so it needs no memory: an action that is still needed is returned again.

mod container;
mod ephemeral;
mod history;
mod init;
mod restart;
mod sandbox;
mod status;
mod terminate;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use serde::{Deserialize, Serialize};

use crate::observed::probes::Verdicts;
use crate::observed::{self, Timestamp};

pub(crate) use ephemeral::{as_container, ephemerals};
pub use history::{ERR_IMAGE_PULL, EVICTED, Failure, History, LastRun, Terminal};
pub use restart::BackOff;
pub use status::{NodeAddresses, status};
pub use terminate::remaining_grace;
pub use view::View;

/// Minimum grace period of a container; the stock kubelet's.
pub const MINIMUM_GRACE: Duration = Duration::from_secs(2);

/// Default of `terminationGracePeriodSeconds`.
pub const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Hashes of the sandbox and container specs; a container with another hash is replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    /// Hash of the sandbox spec, which cannot change while the sandbox exists.
    pub sandbox: String,
    /// Hash by container name, including init containers and sidecars.
    pub containers: BTreeMap<String, String>,
    /// Hash by ephemeral container name. A change neither restarts containers nor a finished pod.
    pub ephemerals: BTreeMap<String, String>,
    /// Hash of the whole pod spec; a change restarts no running container.
    pub spec: String,
    /// The restart policy itself; a change restarts no running container.
    pub restart_policy: String,
}

impl Hashes {
    /// The hash of a container, including ephemeral ones; `None` for an unknown name.
    pub fn container(&self, name: &str) -> Option<&String> {
        self.containers.get(name).or_else(|| self.ephemerals.get(name))
    }

    /// The hash of the spec that an action on this key realizes; `None` for keys without a spec.
    pub fn of(&self, key: &Key) -> Option<&String> {
        match key {
            Key::Sandbox => Some(&self.sandbox),
            Key::Container(name) | Key::Replacement(name) => self.container(name),
            Key::Volumes | Key::Dead(_) => None,
        }
    }

    /// All lasting hashes as one text, to decide whether a finished pod restarts.
    pub fn all(&self) -> String {
        let mut all = self.sandbox.clone();
        for (name, hash) in &self.containers {
            all.push(' ');
            all.push_str(name);
            all.push('=');
            all.push_str(hash);
        }
        all
    }
}

/// Termination request of a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ending {
    /// Time of the request.
    pub since: Timestamp,
    /// Grace period in seconds.
    pub grace_seconds: i64,
}

/// Input of [`compute_pod_actions`].
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// The desired pod; for a terminating pod, its last desired version.
    pub pod: &'a Pod,
    /// Hashes of the desired pod.
    pub hashes: &'a Hashes,
    /// Set if the pod is to be terminated and removed.
    pub ending: Option<&'a Ending>,
    /// An edit that admission or decoding rejected while an earlier version runs.
    pub refused_edit: Option<&'a RefusedEdit>,
    /// Observed containers.
    pub observed: &'a observed::Pod,
    /// Probe results.
    pub verdicts: &'a Verdicts,
    /// History of the pod.
    pub history: &'a History,
    /// Containers whose environment contains the pod IP; they are created after the sandbox has one.
    pub needs_address: &'a BTreeSet<String>,
    /// Keys of the actions in progress.
    pub in_progress: &'a BTreeSet<Key>,
    /// Parameters of the restart back-off.
    pub back_off: BackOff,
    /// The current time.
    pub now: Timestamp,
}

/// A version of the pod that does not replace the running one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedEdit {
    /// CamelCase reason, also of the event.
    pub reason: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// The subject of an action; at most one action per key is in progress.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Volumes of the pod.
    Volumes,
    /// Sandbox of the pod.
    Sandbox,
    /// The container of that name.
    Container(String),
    /// The next version of the container of that name.
    Replacement(String),
    /// A container or sandbox to remove, by engine id.
    Dead(String),
}

impl Key {
    /// The container name of the key, if it has one.
    pub fn container(&self) -> Option<&str> {
        match self {
            Self::Container(name) | Self::Replacement(name) => Some(name),
            Self::Volumes | Self::Sandbox | Self::Dead(_) => None,
        }
    }
}

/// Why a running container is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The pod is terminating.
    PodEnds,
    /// Its spec changed.
    Changed,
    /// The pod spec no longer lists it.
    Dropped,
    /// Its liveness probe failed.
    Unhealthy,
    /// Its startup probe failed.
    NeverStarted,
    /// Its sandbox is gone or must be replaced.
    SandboxLost,
}

/// One action. Every action is idempotent and can be interrupted at any point.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Mount the volumes of the pod.
    MountVolumes,
    CreateSandbox {
        /// Number of earlier sandboxes.
        attempt: u32,
    },
    /// Start the existing sandbox.
    StartSandbox {
        /// Engine id.
        id: String,
    },
    /// Check that the next version of the container can be created, and pull its image, while the current one runs.
    PrepareContainer {
        /// Container name.
        name: String,
    },
    /// Ensure the image and create the container.
    CreateContainer {
        /// Container name.
        name: String,
        /// Restart count.
        attempt: u32,
        /// Restart back-off if this attempt ends.
        back_off: Duration,
    },
    /// Start the existing container and run its postStart hook.
    StartContainer {
        /// Container name.
        name: String,
        /// Engine id.
        id: String,
    },
    /// Run the preStop hook, send the stop signal, and kill the container after the grace period.
    StopContainer {
        /// Container name.
        name: String,
        /// Engine id.
        id: String,
        /// Grace period.
        grace: Duration,
        reason: StopReason,
    },
    /// Remove an exited container or an unused sandbox.
    Remove {
        /// Engine id.
        id: String,
    },
    /// Delete the contents of an evicted pod's `emptyDir` volumes; no container runs.
    EmptyVolumes,
    /// Unmount the volumes; the engine has no container of the pod.
    CleanUp,
}

impl Action {
    /// The subject of the action.
    pub fn key(&self) -> Key {
        match self {
            Self::MountVolumes | Self::EmptyVolumes | Self::CleanUp => Key::Volumes,
            Self::CreateSandbox { .. } | Self::StartSandbox { .. } => Key::Sandbox,
            Self::PrepareContainer { name } => Key::Replacement(name.clone()),
            Self::CreateContainer { name, .. }
            | Self::StartContainer { name, .. }
            | Self::StopContainer { name, .. } => Key::Container(name.clone()),
            Self::Remove { id } => Key::Dead(id.clone()),
        }
    }

    /// Whether the action creates or starts something, and is therefore aborted when that is no longer desired.
    pub fn makes_something(&self) -> bool {
        match self {
            Self::CreateSandbox { .. }
            | Self::StartSandbox { .. }
            | Self::PrepareContainer { .. }
            | Self::CreateContainer { .. }
            | Self::StartContainer { .. } => true,
            Self::MountVolumes
            | Self::EmptyVolumes
            | Self::StopContainer { .. }
            | Self::Remove { .. }
            | Self::CleanUp => false,
        }
    }
}

/// Why the pod makes no progress.
#[derive(Clone, Debug, PartialEq)]
pub enum Waiting {
    /// A container exited and waits for its restart.
    BackOff {
        /// Container name.
        container: String,
        /// Attempt that exited.
        attempt: u32,
        /// The back-off delay.
        delay: Duration,
    },
    /// An action failed and waits for its retry.
    Retry(Key),
    /// An init container has to complete, or a sidecar has to start.
    Init {
        /// Container name.
        container: String,
    },
}

/// Result of [`compute_pod_actions`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Actions, all of which may start at once.
    pub actions: Vec<Action>,
    /// What the pod waits for.
    pub waiting_on: Vec<Waiting>,
    /// Time at which actions must be computed again at the latest.
    pub wake_at: Option<Timestamp>,
    /// Set if the pod has reached a terminal phase; the worker saves it.
    pub terminal: Option<Terminal>,
    /// Id of the sandbox in which all init containers have completed; the worker saves it.
    pub initialized_in: Option<String>,
    /// The pod was terminated and nothing of it is left.
    pub gone: bool,
}

impl Plan {
    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |old| old.min(at)));
    }

    /// Adds an action unless one with the same key is in progress, already added, or waiting for a retry.
    fn act(&mut self, input: &Input<'_>, action: Action) {
        let key = action.key();
        if let Some(failure) = input.history.failures.get(&key)
            && failure.retry_at > input.now
        {
            self.wake(failure.backs_off_at().filter(|at| *at > input.now).unwrap_or(failure.retry_at));
            self.waiting_on.push(Waiting::Retry(key));
            return;
        }
        if !input.in_progress.contains(&key) && !self.actions.iter().any(|a| a.key() == key) {
            self.actions.push(action);
        }
    }
}

/// Computes all actions that may start now.
pub fn compute_pod_actions(input: &Input<'_>) -> Plan {
    let mut plan = Plan::default();
    if !input.observed.uninspected.is_empty() {
        return plan; // The state of these containers is unknown.
    }
    let view = View::new(input);
    if input.ending.is_some() {
        terminate::remove(input, &view, &mut plan);
        return plan;
    }
    if let Some(terminal) = view.terminal(input) {
        terminate::finish(input, &view, &terminal, &mut plan);
        plan.terminal = Some(terminal);
        return plan;
    }
    if let Some(deadline) = deadline(input) {
        plan.wake(deadline);
    }
    terminate::stop_unlisted(input, &view, &mut plan);
    terminate::sweep(input, &mut plan);
    mount_volumes(input, &mut plan);
    let Some(sandbox) = sandbox::ready(input, &view, &mut plan) else { return plan };
    ephemeral::start_new(input, &view, sandbox, &mut plan);
    if !init::done(input, &view, sandbox, &mut plan) {
        return plan;
    }
    plan.initialized_in = Some(sandbox.id.clone());
    for main in spec(input.pod).containers.iter() {
        container::sync(input, &view, sandbox, main, container::Role::Main, &mut plan);
    }
    plan
}

fn mount_volumes(input: &Input<'_>, plan: &mut Plan) {
    if !input.history.volumes_mounted {
        plan.act(input, Action::MountVolumes);
    }
}

/// Time at which `activeDeadlineSeconds` expires.
fn deadline(input: &Input<'_>) -> Option<Timestamp> {
    let seconds = spec(input.pod).active_deadline_seconds?;
    after(input.history.started_at?, Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// A later time; `None` on overflow.
fn after(at: Timestamp, wait: Duration) -> Option<Timestamp> {
    at.checked_add(wait).ok()
}

/// The pod's spec; validation rejects pods without one.
pub(crate) fn spec(pod: &Pod) -> &PodSpec {
    static EMPTY: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);
    pod.spec.as_ref().unwrap_or(&EMPTY)
}

/// Init containers, including sidecars.
pub(crate) fn inits(pod: &Pod) -> &[Container] {
    spec(pod).init_containers.as_deref().unwrap_or_default()
}

/// Whether an init container is a sidecar, with restart policy `Always`.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}
