//! Plans one container: create, start, restart after a back-off, and replace after an edit.

use k8s_openapi::api::core::v1::{Container, Probe};

use super::history::FAILURE_SHOWN;
use super::restart::should_restart;
use super::view::Run;
use super::{Action, Input, Plan, StopReason, View, Waiting, after, inits, spec, terminate};
use crate::observed::probes::Kind;
use crate::observed::{Sandbox, State};

/// Which list of the pod spec a container is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The list `spec.containers`.
    Main,
    /// The list `spec.initContainers`.
    Init,
    /// The list `spec.ephemeralContainers`.
    Ephemeral,
}

/// Adds the action that brings this container to its desired state, if one is needed.
pub(super) fn sync(
    input: &Input<'_>,
    view: &View<'_>,
    sandbox: &Sandbox,
    container: &Container,
    role: Role,
    plan: &mut Plan,
) {
    let name = &container.name;
    let run = view.run(name);
    let current = view.is_current(name, &run);
    if let Run::Here(here) = &run {
        let at_home = here.sandbox_id == sandbox.id;
        match &here.state {
            State::Running { .. } if !current && is_prepared(input, name, plan) => {
                return terminate::stop(input, here, StopReason::Changed, plan);
            }
            State::Running { .. } if !at_home => {
                return terminate::stop(input, here, StopReason::SandboxLost, plan);
            }
            State::Running { .. } => {
                if let Some(reason) = failed_probe(input, &here.id) {
                    terminate::stop(input, here, reason, plan);
                }
                return;
            }
            State::Created if current && at_home => {
                if sandbox.state.is_running() && input.history.volumes_mounted {
                    let action = Action::StartContainer { name: name.clone(), id: here.id.clone() };
                    plan.act(input, action);
                }
                return;
            }
            State::Created => return plan.act(input, Action::Remove { id: here.id.clone() }),
            State::Exited(_) => {}
        }
    }
    if matches!(run, Run::Never) && view.has_unlisted() {
        return; // This container replaces them.
    }
    let is_init = role == Role::Init;
    let carried = match run.ended() {
        Some(ended) if current && !(is_init && run.sandbox_id() != Some(&sandbox.id)) => {
            if !should_restart(input.pod, container, is_init, ended.code) {
                return;
            }
            let delay = input.back_off.wait(ended.back_off, ended.ran);
            if let Some(due) = ended.at.and_then(|at| after(at, delay))
                && due > input.now
            {
                let shown_at = ended.at.and_then(|at| after(at, FAILURE_SHOWN));
                let shown_at = shown_at.filter(|at| *at > input.now);
                plan.wake(shown_at.map_or(due, |at| at.min(due)));
                plan.waiting_on.push(Waiting::BackOff {
                    container: name.clone(),
                    attempt: run.next_attempt() - 1,
                    delay,
                    is_shown: shown_at.is_none(),
                });
                return;
            }
            input.back_off.next(delay)
        }
        _ => std::time::Duration::ZERO,
    };
    let has_address =
        !sandbox.ips.is_empty() || sandbox.state.is_running() || !input.needs_address.contains(name);
    if input.history.volumes_mounted && has_address {
        let action =
            Action::CreateContainer { name: name.clone(), attempt: run.next_attempt(), back_off: carried };
        plan.act(input, action);
    }
}

/// The reason to restart a running container whose startup or liveness probe failed.
fn failed_probe(input: &Input<'_>, id: &str) -> Option<StopReason> {
    let failed = |kind| input.probe_results.get(id, kind).is_some_and(|probe_result| !probe_result.success);
    if failed(Kind::Startup) {
        Some(StopReason::NeverStarted)
    } else if failed(Kind::Liveness) {
        Some(StopReason::Unhealthy)
    } else {
        None
    }
}

/// Whether a running container has started: it has no startup probe, or the probe succeeded.
pub(super) fn started(input: &Input<'_>, container: &Container, id: &str) -> bool {
    has_passed(input, &container.startup_probe, id, Kind::Startup)
}

/// Whether a running container is ready: it has started, and its readiness probe, if any, succeeds.
pub(super) fn ready(input: &Input<'_>, container: &Container, id: &str) -> bool {
    started(input, container, id) && has_passed(input, &container.readiness_probe, id, Kind::Readiness)
}

fn has_passed(input: &Input<'_>, probe: &Option<Probe>, id: &str, kind: Kind) -> bool {
    probe.is_none() || input.probe_results.get(id, kind).is_some_and(|probe_result| probe_result.success)
}

/// Whether the new version of the container can be created. If that is unknown, adds the action that checks it.
pub(super) fn is_prepared(input: &Input<'_>, name: &str, plan: &mut Plan) -> bool {
    if input.history.prepared.get(name) == input.hashes.containers.get(name) {
        return true;
    }
    if input.history.volumes_mounted {
        plan.act(input, Action::PrepareContainer { name: name.to_owned() });
    }
    false
}

/// Whether all containers that need a new version can be created.
pub(super) fn all_prepared(input: &Input<'_>, view: &View<'_>, plan: &mut Plan) -> bool {
    let mut all = true;
    for container in inits(input.pod).iter().chain(&spec(input.pod).containers) {
        if !view.is_current(&container.name, &view.run(&container.name)) {
            all &= is_prepared(input, &container.name, plan);
        }
    }
    all
}
