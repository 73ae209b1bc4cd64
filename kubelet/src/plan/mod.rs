//! What to do next about one pod: a pure function of what is wanted, what is there and what has been.
//!
//! [`plan`] looks at a whole pod at one moment and names every step that may be taken now. It is asked again
//! whenever anything changes, so it never needs to remember: a step that is still needed will be named again.

mod container;
mod edit;
mod end;
mod ephemeral;
mod history;
mod init;
mod restart;
mod sandbox;
mod status;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use serde::{Deserialize, Serialize};

use crate::observed::probes::Verdicts;
use crate::observed::{self, Timestamp};

pub use end::rest;
pub(crate) use ephemeral::{as_container, ephemerals};
pub use history::{ERR_IMAGE_PULL, EVICTED, Failure, History, LastRun, Terminal};
pub use restart::BackOff;
pub use status::{NodeAddresses, status};
pub use view::View;

/// The shortest grace a container is given to end by itself, that of the stock kubelet.
pub const MINIMUM_GRACE: Duration = Duration::from_secs(2);

/// Grace of a pod that names none: `terminationGracePeriodSeconds` of the Pod API.
pub const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Hashes of what sandbox and containers are made of; a container whose hash differs is made anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    /// Of the sandbox and everything that cannot change while it lives.
    pub sandbox: String,
    /// Of each container by name, init containers and sidecars among them.
    pub containers: BTreeMap<String, String>,
    /// Of each ephemeral container by name; of no weight for what runs, and for whether a finished pod runs anew.
    pub ephemerals: BTreeMap<String, String>,
    /// Of the whole spec as it is written; restarts nothing that runs.
    pub spec: String,
    /// The restart policy, no hash; it restarts nothing that runs.
    pub restart_policy: String,
}

impl Hashes {
    /// That of the container of that name, be it ephemeral; `None` when the pod has none of the name.
    pub fn container(&self, name: &str) -> Option<&String> {
        self.containers.get(name).or_else(|| self.ephemerals.get(name))
    }

    /// That of what is made under a key; `None` where nothing is.
    pub fn of(&self, key: &Key) -> Option<&String> {
        match key {
            Key::Sandbox => Some(&self.sandbox),
            Key::Container(name) | Key::Successor(name) => self.container(name),
            Key::Volumes | Key::Remains(_) => None,
        }
    }

    /// One text for all that lasts, to tell whether a finished pod is to run anew.
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

/// The pod is to be ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ending {
    /// When that was decided.
    pub since: Timestamp,
    /// Seconds its containers may take.
    pub grace_seconds: i64,
}

/// Everything a plan depends on.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// The pod as it is wanted, or as it was last wanted when it is ending.
    pub pod: &'a Pod,
    /// Hashes of that.
    pub hashes: &'a Hashes,
    /// Set when it is to be ended and removed.
    pub ending: Option<&'a Ending>,
    /// What is there.
    pub observed: &'a observed::Pod,
    /// What the probes say.
    pub verdicts: &'a Verdicts,
    /// What has been.
    pub history: &'a History,
    /// Containers whose environment holds the pod's address: they are made once the sandbox has one.
    pub needs_address: &'a BTreeSet<String>,
    /// What is being done at this moment.
    pub under_way: &'a BTreeSet<Key>,
    /// Times of the container back-off.
    pub back_off: BackOff,
    /// Now.
    pub now: Timestamp,
}

/// What an action works on; at most one action a key is under way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The pod's volumes.
    Volumes,
    /// The pod's sandbox.
    Sandbox,
    /// The container of that name.
    Container(String),
    /// What is to replace the container of that name.
    Successor(String),
    /// Something dead, by engine id.
    Remains(String),
}

impl Key {
    /// The container it is about, if it is about one.
    pub fn container(&self) -> Option<&str> {
        match self {
            Self::Container(name) | Self::Successor(name) => Some(name),
            Self::Volumes | Self::Sandbox | Self::Remains(_) => None,
        }
    }
}

/// Why a running container is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The pod is ended.
    PodEnds,
    /// Its definition changed.
    Changed,
    /// The pod no longer has it.
    Dropped,
    /// Its liveness probe failed.
    Unhealthy,
    /// Its startup probe failed.
    NeverStarted,
    /// Its sandbox is gone or changed.
    SandboxLost,
}

/// One step; each can be repeated and can be cut off anywhere without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make the pod's volumes.
    MountVolumes,
    /// Make a sandbox.
    CreateSandbox {
        /// Sandboxes before it.
        attempt: u32,
    },
    /// Start the sandbox that is there.
    StartSandbox {
        /// Engine id.
        id: String,
    },
    /// Make sure that the container could be made as it is wanted now, while what it replaces still runs.
    PrepareContainer {
        /// Name in the pod.
        name: String,
    },
    /// Make sure of the image and make the container.
    CreateContainer {
        /// Name in the pod.
        name: String,
        /// Restarts before it.
        attempt: u32,
        /// How long the next restart will wait should this one end.
        back_off: Duration,
    },
    /// Start the container that is there, and run its postStart hook.
    StartContainer {
        /// Name in the pod.
        name: String,
        /// Engine id.
        id: String,
    },
    /// Run its preStop hook, ask it to end, and end it by force after the grace.
    StopContainer {
        /// Name in the pod.
        name: String,
        /// Engine id.
        id: String,
        /// Time until force.
        grace: Duration,
        /// Why.
        reason: StopReason,
    },
    /// Remove what has ended, or a sandbox nothing runs in any more.
    Remove {
        /// Engine id.
        id: String,
    },
    /// The pod is evicted and nothing of it runs: take away what it wrote.
    EmptyVolumes,
    /// Nothing of the pod is left in the engine: take down its volumes.
    CleanUp,
}

impl Action {
    /// What it works on.
    pub fn key(&self) -> Key {
        match self {
            Self::MountVolumes | Self::EmptyVolumes | Self::CleanUp => Key::Volumes,
            Self::CreateSandbox { .. } | Self::StartSandbox { .. } => Key::Sandbox,
            Self::PrepareContainer { name } => Key::Successor(name.clone()),
            Self::CreateContainer { name, .. }
            | Self::StartContainer { name, .. }
            | Self::StopContainer { name, .. } => Key::Container(name.clone()),
            Self::Remove { id } => Key::Remains(id.clone()),
        }
    }

    /// It makes or starts something, so that it is cut off once that is not wanted.
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

/// What the pod waits for; the first that holds it up.
#[derive(Clone, Debug, PartialEq)]
pub enum Waiting {
    /// A container ended and is restarted later.
    BackOff {
        /// Name in the pod.
        container: String,
        /// Attempt that ended.
        attempt: u32,
        /// The whole delay.
        delay: Duration,
    },
    /// Something failed and is tried again later.
    Retry(Key),
    /// An init container has to end, or a sidecar to start, before the next may begin.
    Init {
        /// Name in the pod.
        container: String,
    },
}

/// What may be done now, and when to ask again though nothing happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Steps, all of which may begin at once.
    pub actions: Vec<Action>,
    /// What holds the pod up.
    pub waiting_on: Vec<Waiting>,
    /// Ask again at this moment at the latest.
    pub wake_at: Option<Timestamp>,
    /// The pod has come to its end by itself: remember it.
    pub terminal: Option<Terminal>,
    /// All init containers of this sandbox (engine id) have done their work: remember it.
    pub initialized_in: Option<String>,
    /// The pod was to be ended and nothing of it is left.
    pub gone: bool,
}

impl Plan {
    fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |old| old.min(at)));
    }

    /// Adds a step unless one on the same thing is under way, already named, or has failed a moment ago.
    fn act(&mut self, input: &Input<'_>, action: Action) {
        let key = action.key();
        if let Some(failure) = input.history.failures.get(&key)
            && failure.retry_at > input.now
        {
            self.wake(failure.backs_off_at().filter(|at| *at > input.now).unwrap_or(failure.retry_at));
            self.waiting_on.push(Waiting::Retry(key));
            return;
        }
        if !input.under_way.contains(&key) && !self.actions.iter().any(|a| a.key() == key) {
            self.actions.push(action);
        }
    }
}

/// Names every step that may be taken now.
pub fn plan(input: &Input<'_>) -> Plan {
    let mut plan = Plan::default();
    if !input.observed.unseen.is_empty() {
        return plan; // A look is overdue: whatever is there may be anything.
    }
    let view = View::new(input);
    if input.ending.is_some() {
        end::remove(input, &view, &mut plan);
        return plan;
    }
    if let Some(terminal) = view.terminal(input) {
        end::finish(input, &view, &terminal, &mut plan);
        plan.terminal = Some(terminal);
        return plan;
    }
    if let Some(deadline) = deadline(input) {
        plan.wake(deadline);
    }
    end::drop_strangers(input, &view, &mut plan);
    end::sweep(input, &mut plan);
    mount_volumes(input, &mut plan);
    let Some(sandbox) = sandbox::ready(input, &view, &mut plan) else { return plan };
    ephemeral::begin(input, &view, sandbox, &mut plan);
    if !init::done(input, &view, sandbox, &mut plan) {
        return plan;
    }
    plan.initialized_in = Some(sandbox.id.clone());
    for main in spec(input.pod).containers.iter() {
        container::keep(input, &view, sandbox, main, container::Role::Main, &mut plan);
    }
    plan
}

fn mount_volumes(input: &Input<'_>, plan: &mut Plan) {
    if !input.history.volumes_mounted {
        plan.act(input, Action::MountVolumes);
    }
}

/// When `activeDeadlineSeconds` runs out.
fn deadline(input: &Input<'_>) -> Option<Timestamp> {
    let seconds = spec(input.pod).active_deadline_seconds?;
    after(input.history.started_at?, Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// That much later, `None` past the end of time.
fn after(at: Timestamp, wait: Duration) -> Option<Timestamp> {
    at.checked_add(wait).ok()
}

/// The pod's spec; an empty one when it has none, which validation does not let through.
pub(crate) fn spec(pod: &Pod) -> &PodSpec {
    static EMPTY: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);
    pod.spec.as_ref().unwrap_or(&EMPTY)
}

/// Init containers, sidecars among them.
pub(crate) fn inits(pod: &Pod) -> &[Container] {
    spec(pod).init_containers.as_deref().unwrap_or_default()
}

/// An init container that stays.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}
