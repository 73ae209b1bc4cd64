//! Computes pod actions: a pure function of desired pod, observed state and history.
//!
//! [`compute_pod_actions`] evaluates the whole pod at one moment, and returns all actions that may start now. The
//! pod worker calls it after every change. It needs no memory, because it returns an action again if the action is
//! still necessary.

mod container;
mod ephemeral;
mod history;
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

use crate::observed::probes::ProbeResults;
use crate::observed::{self, Timestamp};

pub(crate) use ephemeral::{as_container, ephemerals};
pub use history::{ERR_IMAGE_PULL, Eviction, Failure, History, LastRun, Terminal};
pub use restart::BackOff;
pub use status::{NodeAddresses, status};
pub use terminate::remaining_grace;
pub use view::View;

/// Minimum grace period of a container, as in the stock kubelet.
pub const MINIMUM_GRACE: Duration = Duration::from_secs(2);

/// Default of `terminationGracePeriodSeconds`.
pub const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Hashes of the sandbox and container specs. A container with another hash is replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    /// Hash of the sandbox spec, which cannot change while the sandbox exists.
    pub sandbox: String,
    /// Hash by container name, including init containers and sidecars.
    pub containers: BTreeMap<String, String>,
    /// Hash by ephemeral container name. A change neither restarts containers nor a finished pod.
    pub ephemerals: BTreeMap<String, String>,
    /// Hash of the whole pod spec. A change restarts no running container.
    pub spec: String,
    /// The restart policy. A change restarts no running container.
    pub restart_policy: String,
}

impl Hashes {
    /// The hash of a container, which may be ephemeral. `None` for an unknown name.
    pub fn container(&self, name: &str) -> Option<&String> {
        self.containers.get(name).or_else(|| self.ephemerals.get(name))
    }

    /// The hash of the spec that an action with this key implements. `None` for keys without a spec.
    pub fn of(&self, key: &Key) -> Option<&String> {
        match key {
            Key::Sandbox => Some(&self.sandbox),
            Key::Container(name) | Key::Replacement(name) => self.container(name),
            Key::Volumes | Key::Dead(_) => None,
        }
    }

    /// The hashes of the sandbox and the containers as one text. A finished pod restarts if this text changes.
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

/// The request to terminate a pod.
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
    /// The desired pod. For a terminating pod, it is the last desired version.
    pub pod: &'a Pod,
    /// Hashes of the desired pod.
    pub hashes: &'a Hashes,
    /// The request to terminate and remove the pod, if there is one.
    pub ending: Option<&'a Ending>,
    /// Whether the source of the pod has sent a complete list since the kubelet started. Before that, the pod comes from
    /// a checkpoint, which may be older than the containers, so containers of other versions are kept.
    pub is_confirmed: bool,
    /// An edit that admission or decoding rejected while an earlier version runs.
    pub refused_edit: Option<&'a RefusedEdit>,
    /// Observed containers.
    pub observed: &'a observed::Pod,
    /// Probe results.
    pub probe_results: &'a ProbeResults,
    /// History of the pod.
    pub history: &'a History,
    /// Containers whose environment contains the pod IP. They are created after the sandbox has an IP.
    pub needs_address: &'a BTreeSet<String>,
    /// Keys of the actions in progress.
    pub in_progress: &'a BTreeSet<Key>,
    /// Parameters of the restart back-off.
    pub back_off: BackOff,
    /// The current time.
    pub now: Timestamp,
}

/// A version of the pod that was rejected, so that it does not replace the running one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedEdit {
    /// CamelCase reason, which the event has too.
    pub reason: String,
    /// The message: what is wrong and what to do.
    pub message: String,
}

/// The subject of an action. At most one action per key is in progress.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The volumes of the pod.
    Volumes,
    /// The sandbox of the pod.
    Sandbox,
    /// The container of this name.
    Container(String),
    /// The next version of the container of this name.
    Replacement(String),
    /// A container or sandbox to remove, by its engine id.
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

/// The reason why a running container is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The pod is terminating.
    PodEnds,
    /// The spec of the container changed.
    Changed,
    /// The pod spec no longer lists the container.
    Dropped,
    /// The liveness probe of the container failed.
    Unhealthy,
    /// The startup probe of the container failed.
    NeverStarted,
    /// The sandbox of the container is gone or must be replaced.
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
    /// Check that the next version of the container can be created, and pull its image. The current version runs
    /// meanwhile.
    PrepareContainer {
        /// Container name.
        name: String,
    },
    /// Pull the image if necessary, and create the container.
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
    /// Delete the contents of an evicted pod's `emptyDir` volumes. No container runs any more.
    EmptyVolumes,
    /// Unmount the volumes. The engine has no container of the pod any more.
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

    /// Whether the action creates or starts something. Such an action is aborted when its result is no longer
    /// desired.
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

/// The reason why the pod makes no progress.
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
        /// Whether the status shows the back-off yet, rather than how the container ended.
        is_shown: bool,
    },
    /// An action failed and waits for its retry.
    Retry(Key),
    /// An init container must complete first, or a sidecar must start.
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
    /// The reasons why the pod makes no progress.
    pub waiting_on: Vec<Waiting>,
    /// The latest time at which actions must be computed again.
    pub wake_at: Option<Timestamp>,
    /// The terminal state, if the pod has reached a terminal phase. The worker saves it.
    pub terminal: Option<Terminal>,
    /// Id of the sandbox in which all init containers have completed. The worker saves it.
    pub initialized_in: Option<String>,
    /// True if the pod was terminated and nothing of it is left.
    pub gone: bool,
}

impl Plan {
    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |old| old.min(at)));
    }

    /// Adds an action. It does nothing if an action with the same key is in progress, already added, or waiting for
    /// a retry.
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
    if input.is_confirmed {
        terminate::stop_unlisted(input, &view, &mut plan);
    }
    terminate::sweep(input, &mut plan);
    mount_volumes(input, &mut plan);
    let Some(sandbox) = sandbox::ready(input, &view, &mut plan) else { return plan };
    ephemeral::start_new(input, &view, sandbox, &mut plan);
    if !sandbox::init_containers_done(input, &view, sandbox, &mut plan) {
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

/// When `activeDeadlineSeconds` expires.
fn deadline(input: &Input<'_>) -> Option<Timestamp> {
    let seconds = spec(input.pod).active_deadline_seconds?;
    after(input.history.started_at?, Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// The time `wait` after `at`, or `None` on overflow.
fn after(at: Timestamp, wait: Duration) -> Option<Timestamp> {
    at.checked_add(wait).ok()
}

/// The pod's spec. Validation rejects pods without one.
pub(crate) fn spec(pod: &Pod) -> &PodSpec {
    static EMPTY: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);
    pod.spec.as_ref().unwrap_or(&EMPTY)
}

/// The init containers, including sidecars.
pub(crate) fn inits(pod: &Pod) -> &[Container] {
    spec(pod).init_containers.as_deref().unwrap_or_default()
}

/// Whether an init container is a sidecar, with restart policy `Always`.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}
