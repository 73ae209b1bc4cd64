//! Plans the sandbox: create, start, and replace if it is lost or its spec changed.

use super::{Action, Input, Plan, StopReason, View, container, terminate};
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
    let wanted = sandbox.hash == input.hashes.sandbox;
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
