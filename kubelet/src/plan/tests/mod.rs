//! Pod actions: tables of desired and observed state, and seeded simulations.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod ending;
mod model;
mod simulation;
mod statuses;
mod steps;

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{EphemeralContainer, Pod};

use super::{
    Action, BackOff, Ending, Eviction, Failure, Hashes, History, Input, Key, MINIMUM_GRACE, Plan,
    RefusedEdit, Terminal, compute_pod_actions,
};
use crate::observed::probes::{Kind, ProbeResult, ProbeResults};
use crate::observed::{self, Container, Exit, Sandbox, State, Timestamp};

/// Seconds after the start of the test clock.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

/// A pod with this spec in YAML.
fn pod(spec: &str) -> Pod {
    let indented: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: default, uid: u}}\nspec:\n{indented}"
    );
    let decoded = api::decode(manifest.as_bytes());
    assert!(decoded.problems.is_empty(), "{:?}", decoded.problems);
    match decoded.objects.into_iter().next() {
        Some(api::object::Object::Pod(pod)) => *pod,
        other => panic!("not a pod: {other:?}"),
    }
}

/// The pod with ephemeral containers of these names.
fn debugged(spec: &str, names: &[&str]) -> Pod {
    let mut pod = pod(spec);
    let ephemeral = |name: &&str| EphemeralContainer {
        name: (*name).to_owned(),
        image: Some("a".to_owned()),
        ..EphemeralContainer::default()
    };
    pod.spec.as_mut().unwrap().ephemeral_containers = Some(names.iter().map(ephemeral).collect());
    pod
}

/// Hashes derived from image and name only, except the spec hash.
fn hashes(pod: &Pod) -> Hashes {
    let containers = super::spec(pod).containers.iter().chain(super::inits(pod));
    let hash = |c: &k8s_openapi::api::core::v1::Container| {
        format!("{}:{}", c.name, c.image.as_deref().unwrap_or_default())
    };
    let sandbox = super::spec(pod).hostname.clone().unwrap_or_else(|| "s".to_owned());
    let ephemerals = super::ephemerals(pod).iter().map(|c| (c.name.clone(), format!("{sandbox}/{}", c.name)));
    Hashes {
        ephemerals: ephemerals.collect(),
        containers: containers.map(|c| (c.name.clone(), format!("{sandbox}/{}", hash(c)))).collect(),
        sandbox,
        spec: serde_json::to_string(&pod.spec).unwrap(),
        restart_policy: super::spec(pod).restart_policy.clone().unwrap_or_default(),
    }
}

/// The state of a pod at one moment.
struct Moment {
    pod: Pod,
    observed: observed::Pod,
    history: History,
    probe_results: ProbeResults,
    in_progress: BTreeSet<Key>,
    needs_address: BTreeSet<String>,
    ending: Option<Ending>,
    is_confirmed: bool,
    refused_edit: Option<RefusedEdit>,
    now: Timestamp,
}

impl Moment {
    fn of(spec: &str) -> Self {
        let history = History { volumes_mounted: true, started_at: Some(at(0)), ..History::default() };
        Self {
            pod: pod(spec),
            observed: observed::Pod::default(),
            history,
            probe_results: ProbeResults::default(),
            in_progress: BTreeSet::new(),
            needs_address: BTreeSet::new(),
            ending: None,
            is_confirmed: true,
            refused_edit: None,
            now: at(100),
        }
    }

    fn sandbox(mut self, state: State) -> Self {
        // The engine reports an address only for running sandboxes; the native pod network knows it earlier.
        let ips = if state.is_running() { vec!["10.0.0.2".parse().unwrap()] } else { Vec::new() };
        self.observed.put_sandbox(Sandbox {
            id: "sb".to_owned(),
            attempt: 0,
            hash: "s".to_owned(),
            state,
            ips,
            is_bare: false,
            created_at: at(0),
        });
        self
    }

    fn up(self) -> Self {
        self.sandbox(running(1))
    }

    fn with(mut self, name: &str, attempt: u32, state: State) -> Self {
        let hash = hashes(&self.pod).container(name).cloned().unwrap_or_default();
        self.observed.put_container(Container {
            id: format!("{name}{attempt}"),
            name: name.to_owned(),
            attempt,
            hash,
            back_off: Duration::ZERO,
            image: "i".to_owned(),
            image_id: "sha256:i".to_owned(),
            sandbox_id: "sb".to_owned(),
            state,
            created_at: at(i64::from(attempt)),
            stop_signal: None,
            notes: Default::default(),
            message: None,
        });
        self
    }

    fn tune(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// All next versions of containers can be created.
    fn prepared(mut self) -> Self {
        self.history.prepared = hashes(&self.pod).containers;
        self
    }

    /// An action with this key has failed and is retried at that second.
    fn failed(mut self, key: Key, retry_at: i64) -> Self {
        let failure = Failure {
            reason: "ErrImagePull".to_owned(),
            message: "why".to_owned(),
            retry_at: at(retry_at),
            delay: Duration::from_secs(10),
        };
        self.history.failures.insert(key, failure);
        self
    }

    fn busy(mut self, key: Key) -> Self {
        self.in_progress.insert(key);
        self
    }

    fn probe_result(mut self, id: &str, kind: Kind, success: bool) -> Self {
        self.probe_results.set(id, kind, ProbeResult { success, since: at(50), message: String::new() });
        self
    }

    fn plan(&self) -> Plan {
        self.look(compute_pod_actions)
    }

    fn look<T>(&self, look: impl FnOnce(&Input<'_>) -> T) -> T {
        look(&Input {
            pod: &self.pod,
            hashes: &hashes(&self.pod),
            ending: self.ending.as_ref(),
            is_confirmed: self.is_confirmed,
            refused_edit: self.refused_edit.as_ref(),
            observed: &self.observed,
            probe_results: &self.probe_results,
            history: &self.history,
            needs_address: &self.needs_address,
            in_progress: &self.in_progress,
            back_off: BackOff::default(),
            now: self.now,
        })
    }

    /// The planned actions in the format of [`brief`], separated by commas.
    fn summary(&self) -> String {
        self.plan().actions.iter().map(brief).collect::<Vec<_>>().join(", ")
    }
}

/// The eviction of a pod that exceeded a limit.
fn eviction() -> Eviction {
    Eviction { at: at(90), grace: MINIMUM_GRACE, pressure: None }
}

fn running(since: i64) -> State {
    State::Running { started_at: at(since), pid: 42 }
}

fn exited(code: i32, finished: i64) -> State {
    State::Exited(Exit {
        code,
        oom_killed: false,
        error: None,
        started_at: Some(at(1)),
        finished_at: at(finished),
    })
}

/// An action in a short notation.
fn brief(action: &Action) -> String {
    match action {
        Action::MountVolumes => "mount".to_owned(),
        Action::CreateSandbox { attempt } => format!("create sandbox {attempt}"),
        Action::StartSandbox { id } => format!("start sandbox {id}"),
        Action::PrepareContainer { name } => format!("prepare {name}"),
        Action::CreateContainer { name, attempt, back_off } => {
            format!("create {name} {attempt} ({}s)", back_off.as_secs())
        }
        Action::StartContainer { id, .. } => format!("start {id}"),
        Action::StopContainer { id, grace, reason, .. } => {
            format!("stop {id} {}s {reason:?}", grace.as_secs())
        }
        Action::Remove { id } => format!("remove {id}"),
        Action::EmptyVolumes => "empty".to_owned(),
        Action::CleanUp => "clean up".to_owned(),
    }
}
