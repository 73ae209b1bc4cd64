//! Plans what the main containers need: the sandbox (create, start, replace when it is lost or its spec changed), then the init
//! containers in order. Sidecars among them keep running.

use super::container::{Role, started, sync};
use super::{Action, Input, Plan, StopReason, View, Waiting, container, inits, is_sidecar, terminate};
use crate::observed::{Sandbox, State};

/// The sandbox in which containers may be created, or `None` if there is none. It may still be starting.
pub(super) fn ready<'a>(input: &Input<'a>, view: &View<'_>, plan: &mut Plan) -> Option<&'a Sandbox> {
    let observed: &'a crate::observed::Pod = input.observed;
    for old in observed.sandboxes.iter().skip(1) {
        plan.act(input, Action::Remove { id: old.id.clone() });
    }
    let Some(sandbox) = observed.sandbox() else {
        if !stop_all(input, view, plan) {
            plan.act(input, Action::CreateSandbox { attempt: input.history.sandboxes });
        }
        return None;
    };
    let wanted = !input.is_confirmed || sandbox.hash == input.hashes.sandbox;
    match &sandbox.state {
        State::Running { .. } if wanted => Some(sandbox),
        State::Created if wanted => {
            plan.act(input, Action::StartSandbox { id: sandbox.id.clone() });
            Some(sandbox)
        }
        State::Running { .. }
            if view.running().next().is_some() && !container::all_prepared(input, view, plan) =>
        {
            None
        }
        State::Running { .. } | State::Created | State::Exited(_) => {
            if !stop_all(input, view, plan) {
                plan.act(input, Action::Remove { id: sandbox.id.clone() });
            }
            None
        }
    }
}

/// Stops all running containers. Returns true if any runs or has an action in progress.
fn stop_all(input: &Input<'_>, view: &View<'_>, plan: &mut Plan) -> bool {
    for running in view.running() {
        terminate::stop(input, running, StopReason::SandboxLost, plan);
    }
    view.running().next().is_some()
        || input.in_progress.iter().any(|key| matches!(key, super::Key::Container(_)))
}

/// Adds the actions for init containers. Returns true if the main containers may start.
pub(super) fn init_containers_done(
    input: &Input<'_>,
    view: &View<'_>,
    sandbox: &Sandbox,
    plan: &mut Plan,
) -> bool {
    let initialized = view.initialized();
    for init in inits(input.pod) {
        let run = view.run(&init.name);
        let through = if is_sidecar(init) {
            sync(input, view, sandbox, init, Role::Init, plan);
            run.running().is_some_and(|c| {
                c.sandbox_id == sandbox.id && !is_starting(input, &init.name) && started(input, init, &c.id)
            })
        } else if initialized {
            true
        } else {
            let done = run.sandbox_id() == Some(&sandbox.id) && run.ended().is_some_and(|e| e.code == 0);
            if !done {
                sync(input, view, sandbox, init, Role::Init, plan);
            }
            done && view.is_current(&init.name, &run)
        };
        if !through && !initialized {
            plan.waiting_on.push(Waiting::Init { container: init.name.clone() });
            return false;
        }
    }
    true
}

/// Whether the container is being started. Its postStart hook counts too.
fn is_starting(input: &Input<'_>, name: &str) -> bool {
    input.in_progress.contains(&super::Key::Container(name.to_owned()))
}
