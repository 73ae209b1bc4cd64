//! Computes the pod status: phase, conditions and container statuses.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container::{Role, ready, started};
use super::view::Run;
use super::{Input, Key, Plan, View, Waiting, as_container, ephemerals, inits, is_sidecar, spec};
use crate::observed::EDIT_PENDING;
use crate::observed::{self, Exit, State};

/// The IP addresses of the node, primary first.
pub type NodeAddresses = [IpAddr];

/// Computes the current pod status. An unchanged condition keeps its transition time from `previous`.
pub fn status(input: &Input<'_>, plan: &Plan, previous: &[PodCondition], node: &NodeAddresses) -> PodStatus {
    let view = View::new(input);
    let of = |list: &[Container], role: Role| -> Vec<ContainerStatus> {
        list.iter().map(|c| container_status(input, plan, &view, c, role)).collect()
    };
    let mains = of(&spec(input.pod).containers, Role::Main);
    let init_statuses = of(inits(input.pod), Role::Init);
    let ephemerals: Vec<Container> = ephemerals(input.pod).iter().map(as_container).collect();
    let ephemeral_statuses = of(&ephemerals, Role::Ephemeral);
    let terminal = plan.terminal.as_ref();
    let phase = phase(input, plan, &view);
    let host_network = spec(input.pod).host_network == Some(true);
    let ips: &[IpAddr] = match input.observed.sandbox() {
        _ if host_network => node,
        Some(sandbox) if !sandbox.ips.is_empty() => &sandbox.ips,
        _ => &input.history.ips,
    };
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    PodStatus {
        phase: Some(phase.to_owned()),
        reason: terminal.and_then(|t| text(&t.reason)),
        message: terminal.and_then(|t| text(&t.message)),
        conditions: Some(
            ConditionInput {
                input,
                plan,
                view: &view,
                mains: &mains,
                init_statuses: &init_statuses,
                previous,
            }
            .conditions(),
        ),
        container_statuses: Some(mains),
        init_container_statuses: (!init_statuses.is_empty()).then_some(init_statuses),
        ephemeral_container_statuses: (!ephemeral_statuses.is_empty()).then_some(ephemeral_statuses),
        host_ip: node.first().map(IpAddr::to_string),
        host_ips: (!node.is_empty()).then(|| node.iter().map(|ip| HostIP { ip: ip.to_string() }).collect()),
        pod_ip: ips.first().map(IpAddr::to_string),
        pod_ips: (!ips.is_empty()).then(|| ips.iter().map(|ip| PodIP { ip: ip.to_string() }).collect()),
        start_time: input.history.started_at.map(Time),
        qos_class: Some(api::qos::class(spec(input.pod)).as_str().to_owned()),
        observed_generation: input.pod.metadata.generation,
        ..PodStatus::default()
    }
}

fn phase(input: &Input<'_>, plan: &Plan, view: &View<'_>) -> &'static str {
    if let Some(terminal) = &plan.terminal {
        return if terminal.succeeded { "Succeeded" } else { "Failed" };
    }
    if input.ending.is_some() {
        let mains = &spec(input.pod).containers;
        // A pod without containers has no terminated containers.
        let all_rest = |want_success: bool| {
            let rests = |c| view.final_exit(c, false).is_some_and(|e| !want_success || e.code == 0);
            !mains.is_empty() && mains.iter().all(rests)
        };
        if let Some(terminal) = &input.history.terminal {
            return if terminal.succeeded { "Succeeded" } else { "Failed" };
        } else if all_rest(true) {
            return "Succeeded";
        } else if all_rest(false) {
            return "Failed";
        }
    }
    let has_run = |c: &Container| match view.run(&c.name) {
        Run::Never => false,
        Run::Here(here) => here.attempt > 0 || !matches!(here.state, State::Created),
        Run::Past { .. } => true,
    };
    let all_have_run = spec(input.pod).containers.iter().all(has_run);
    if view.initialized() && all_have_run { "Running" } else { "Pending" }
}

fn container_status(
    input: &Input<'_>,
    plan: &Plan,
    view: &View<'_>,
    container: &Container,
    role: Role,
) -> ContainerStatus {
    let name = &container.name;
    let run = view.run(name);
    let here = match &run {
        Run::Here(here) => Some(*here),
        Run::Never | Run::Past { .. } => None,
    };
    let running = run.running();
    let starting = input.in_progress.contains(&Key::Container(name.clone()))
        && container.lifecycle.as_ref().is_some_and(|l| l.post_start.is_some())
        && running.is_some();
    let is_started = running.is_some_and(|c| !starting && started(input, container, &c.id));
    let stays = match role {
        Role::Main => true,
        Role::Init => is_sidecar(container),
        Role::Ephemeral => false,
    };
    let is_ready = stays && running.is_some_and(|c| !starting && ready(input, container, &c.id));
    let rests = match role {
        Role::Main | Role::Init => view.final_exit(container, role == Role::Init).is_some(),
        Role::Ephemeral => run.ended().is_some(),
    };
    let (state, last_state) = states(input, plan, container, &run, rests, starting);
    let done_init = role == Role::Init && !stays && run.ended().is_some_and(|e| e.code == 0);
    ContainerStatus {
        name: name.clone(),
        image: here.map_or_else(|| container.image.clone().unwrap_or_default(), |c| c.image.clone()),
        image_id: here.map(|c| c.image_id.clone()).unwrap_or_default(),
        container_id: here.map(|c| format!("docker://{}", c.id)),
        restart_count: i32::try_from(run.restarts()).unwrap_or(i32::MAX),
        ready: is_ready || done_init,
        started: Some(is_started),
        state: Some(state),
        last_state,
        ..ContainerStatus::default()
    }
}

fn states(
    input: &Input<'_>,
    plan: &Plan,
    container: &Container,
    run: &Run<'_>,
    rests: bool,
    starting: bool,
) -> (ContainerState, Option<ContainerState>) {
    let name = &container.name;
    let here = match run {
        Run::Here(here) => Some(*here),
        Run::Never | Run::Past { .. } => None,
    };
    let before = || {
        let mut dead = input.observed.attempts(name).filter(|c| matches!(c.state, State::Exited(_)));
        dead.next().map(terminated)
    };
    if let Some(State::Running { started_at, .. }) = here.map(|c| &c.state) {
        if starting {
            return (waiting("ContainerCreating", ""), before());
        }
        let running = ContainerStateRunning { started_at: Some(Time(*started_at)) };
        return (ContainerState { running: Some(running), ..Default::default() }, before());
    }
    let ended = here.filter(|c| matches!(c.state, State::Exited(_)));
    let finished = plan.terminal.is_some() || input.ending.is_some();
    let terminated_and_earlier = |ended| {
        let mut earlier = input.observed.attempts(name).skip(1);
        (terminated(ended), earlier.find(|c| matches!(c.state, State::Exited(_))).map(terminated))
    };
    if rests || finished {
        return match ended {
            Some(ended) => terminated_and_earlier(ended),
            None => (unknown_end(input.pod, run, name), None),
        };
    }
    if let Some(failure) = input.history.failures.get(&Key::Container(name.clone())) {
        if failure.is_back_off(input.now) {
            let message = format!("Back-off pulling image: {}", failure.message);
            return (waiting("ImagePullBackOff", &message), before());
        }
        return (waiting(&failure.reason, &failure.message), before());
    }
    let back_off = plan.waiting_on.iter().find_map(|waiting| match waiting {
        Waiting::BackOff { container, delay, is_shown: true, .. } if container == name => Some(*delay),
        Waiting::BackOff { .. } | Waiting::Retry(_) | Waiting::Init { .. } => None,
    });
    if let Some(delay) = back_off {
        let meta = &input.pod.metadata;
        let message = format!(
            "back-off {}s restarting failed container={name} pod={}_{}({})",
            delay.as_secs(),
            meta.name.as_deref().unwrap_or_default(),
            meta.namespace.as_deref().unwrap_or_default(),
            meta.uid.as_deref().unwrap_or_default()
        );
        return (waiting("CrashLoopBackOff", &message), before());
    }
    if let Some(ended) = ended {
        // It restarts soon.
        return terminated_and_earlier(ended);
    }
    let pod_failure =
        input.history.failures.get(&Key::Sandbox).or_else(|| input.history.failures.get(&Key::Volumes));
    let message = pod_failure.map(|f| f.message.as_str()).unwrap_or_default();
    (waiting(waiting_reason(input.pod), message), before())
}

/// The stock waiting reason of a container that has not started.
fn waiting_reason(pod: &Pod) -> &'static str {
    if inits(pod).is_empty() { "ContainerCreating" } else { "PodInitializing" }
}

fn waiting(reason: &str, message: &str) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message: (!message.is_empty()).then(|| message.to_owned()),
    };
    ContainerState { waiting: Some(waiting), ..Default::default() }
}

fn terminated(container: &observed::Container) -> ContainerState {
    let State::Exited(exit) = &container.state else { return ContainerState::default() };
    let terminated = ContainerStateTerminated {
        exit_code: exit.code,
        reason: Some(exit_reason(exit).to_owned()),
        message: container.message.clone().or_else(|| exit.error.clone()),
        started_at: exit.started_at.map(Time),
        finished_at: Some(Time(exit.finished_at)),
        container_id: Some(format!("docker://{}", container.id)),
        ..Default::default()
    };
    ContainerState { terminated: Some(terminated), ..Default::default() }
}

/// The state of a container in a pod that has ended, if the engine does not have the container.
fn unknown_end(pod: &Pod, run: &Run<'_>, name: &str) -> ContainerState {
    let Some(ended) = run.ended() else { return waiting(waiting_reason(pod), "") };
    let (reason, message) = match ended.at {
        Some(_) if ended.code == 0 => ("Completed", None),
        Some(_) => ("Error", None),
        None => ("ContainerStatusUnknown", Some(format!("container {name} was removed by another program"))),
    };
    let terminated = ContainerStateTerminated {
        exit_code: ended.code,
        reason: Some(reason.to_owned()),
        message,
        finished_at: ended.at.map(Time),
        ..Default::default()
    };
    ContainerState { terminated: Some(terminated), ..Default::default() }
}

/// The stock reason for how a container terminated.
pub fn exit_reason(exit: &Exit) -> &'static str {
    match exit {
        Exit { oom_killed: true, .. } => "OOMKilled",
        Exit { started_at: None, .. } => "ContainerCannotRun",
        Exit { code: 0, .. } => "Completed",
        Exit { .. } => "Error",
    }
}

/// What the conditions of a pod are computed from.
struct ConditionInput<'a> {
    input: &'a Input<'a>,
    plan: &'a Plan,
    view: &'a View<'a>,
    mains: &'a [ContainerStatus],
    init_statuses: &'a [ContainerStatus],
    /// The conditions of the previous status.
    previous: &'a [PodCondition],
}

impl ConditionInput<'_> {
    fn conditions(&self) -> Vec<PodCondition> {
        let Self { input, plan, previous, .. } = *self;
        let evicted = plan.terminal.as_ref().filter(|terminal| terminal.is_eviction());
        let target = evicted.map(|terminal| {
            ("DisruptionTarget", true, ("TerminationByKubelet".to_owned(), terminal.message.clone()))
        });
        let had_edit_pending = previous.iter().any(|c| c.type_ == EDIT_PENDING);
        let edit = match pending_edit(input) {
            Some((reason, message)) => Some((EDIT_PENDING, true, (reason, message))),
            // A merge patch cannot remove a condition, so a condition that was True stays as False.
            None => {
                had_edit_pending.then(|| (EDIT_PENDING, false, ("NoEditPending".to_owned(), String::new())))
            }
        };
        self.lifecycle_conditions()
            .into_iter()
            .chain(target)
            .chain(edit)
            .map(|(type_, is_true, (reason, message))| {
                let status = if is_true { "True" } else { "False" };
                let old = previous.iter().find(|c| c.type_ == type_);
                let since = old.filter(|c| c.status == status).and_then(|c| c.last_transition_time.clone());
                PodCondition {
                    type_: type_.to_owned(),
                    status: status.to_owned(),
                    last_transition_time: Some(since.unwrap_or(Time(input.now))),
                    reason: (!reason.is_empty()).then_some(reason),
                    message: (!message.is_empty()).then_some(message),
                    observed_generation: input.pod.metadata.generation,
                    ..PodCondition::default()
                }
            })
            .collect()
    }

    /// Type, status, reason and message of the conditions that every pod has.
    fn lifecycle_conditions(&self) -> [(&'static str, bool, (String, String)); 5] {
        let Self { input, plan, view, mains, init_statuses, previous } = *self;
        let completed =
            plan.terminal.as_ref().map(|t| if t.succeeded { "PodCompleted" } else { "PodFailed" });
        let sandbox_up = input.observed.sandbox().is_some_and(|s| s.state.is_running());
        let is_sidecar_status = |s: &&ContainerStatus| {
            inits(input.pod).iter().any(|container| is_sidecar(container) && container.name == s.name)
        };
        let sidecars = init_statuses.iter().filter(is_sidecar_status);
        let unready = names(sidecars.chain(mains).filter(|s| !s.ready));
        // A sidecar counts as initialized when it has started, ready or not.
        let is_incomplete =
            |s: &&ContainerStatus| if is_sidecar_status(s) { s.started != Some(true) } else { !s.ready };
        let incomplete = names(init_statuses.iter().filter(is_incomplete));
        let initialized = view.initialized() || incomplete.is_empty();
        let containers_ready = completed.is_none() && unready.is_empty();
        let gates = unmet_gates(input, previous);
        let not_ready = || match completed {
            Some(reason) => (reason.to_owned(), String::new()),
            None => {
                let unready = unready.join(" ");
                ("ContainersNotReady".to_owned(), format!("containers with unready status: [{unready}]"))
            }
        };
        let none = || (String::new(), String::new());
        let is_ready = containers_ready && gates.is_empty();
        let ready_reason = match (is_ready, containers_ready) {
            (true, _) => none(),
            (false, true) => ("ReadinessGatesNotReady".to_owned(), gates.join(", ")),
            (false, false) => not_ready(),
        };
        let has_succeeded = plan.terminal.as_ref().is_some_and(|terminal| terminal.succeeded);
        let initialized_reason = match initialized {
            true if has_succeeded => ("PodCompleted".to_owned(), String::new()),
            true => none(),
            false => {
                let incomplete = incomplete.join(" ");
                (
                    "ContainersNotInitialized".to_owned(),
                    format!("containers with incomplete status: [{incomplete}]"),
                )
            }
        };
        [
            ("PodReadyToStartContainers", sandbox_up, none()),
            ("Initialized", initialized, initialized_reason),
            ("Ready", is_ready, ready_reason),
            ("ContainersReady", containers_ready, if containers_ready { none() } else { not_ready() }),
            ("PodScheduled", true, none()),
        ]
    }
}

fn names<'a>(statuses: impl Iterator<Item = &'a ContainerStatus>) -> Vec<&'a str> {
    statuses.map(|status| status.name.as_str()).collect()
}

/// The message of each unmet readiness gate, in the words of the stock kubelet.
fn unmet_gates(input: &Input<'_>, previous: &[PodCondition]) -> Vec<String> {
    let gates = spec(input.pod).readiness_gates.iter().flatten();
    let unmet = gates.filter_map(|gate| {
        let kind = &gate.condition_type;
        let found: Vec<_> = conditions_of(input, previous).filter(|c| c.type_ == *kind).collect();
        match found.first() {
            _ if found.iter().any(|condition| condition.status == "True") => None,
            None => Some(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
            Some(condition) => {
                let status = &condition.status;
                Some(format!("the status of pod readiness gate {kind:?} is not \"True\", but {status}"))
            }
        }
    });
    unmet.collect()
}

/// Reason and message of a pending edit. The edit was rejected, or one of its containers cannot be created.
fn pending_edit(input: &Input<'_>) -> Option<(String, String)> {
    if let Some(edit) = input.refused_edit {
        return Some((edit.reason.clone(), edit.message.clone()));
    }
    input.history.failures.iter().find_map(|(key, failure)| match key {
        Key::Replacement(name) => Some((failure.reason.clone(), format!("{name}: {}", failure.message))),
        Key::Volumes | Key::Sandbox | Key::Container(_) | Key::Dead(_) => None,
    })
}

/// The conditions of other clients: those of the desired pod, followed by those of the previous status.
fn conditions_of<'a>(
    input: &'a Input<'_>,
    previous: &'a [PodCondition],
) -> impl Iterator<Item = &'a PodCondition> {
    input.pod.status.iter().flat_map(|status| status.conditions.iter().flatten()).chain(previous)
}
