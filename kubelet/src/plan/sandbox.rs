//! The sandbox comes first: made, started, and made anew when it is lost or no longer what is wanted.

use super::{Action, Input, Plan, StopReason, View, edit, end};
use crate::observed::{Sandbox, State};

/// The sandbox containers may be made in; `None` while there is none. It may still be starting.
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
            if view.running().next().is_some() && !edit::all_prepared(input, view, plan) =>
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

/// Stops every container that runs; true while any does or is being worked on.
fn stop_all(input: &Input<'_>, view: &View<'_>, plan: &mut Plan) -> bool {
    for running in view.running() {
        end::stop(input, running, StopReason::SandboxLost, plan);
    }
    view.running().next().is_some()
        || input.under_way.iter().any(|key| matches!(key, super::Key::Container(_)))
}
