//! Plans init containers in order. Sidecars among them keep running.

use super::container::{Role, started, sync};
use super::{Input, Plan, View, Waiting, inits, is_sidecar};
use crate::observed::Sandbox;

/// Adds the actions for init containers. Returns true if the main containers may start.
pub(super) fn done(input: &Input<'_>, view: &View<'_>, sandbox: &Sandbox, plan: &mut Plan) -> bool {
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
