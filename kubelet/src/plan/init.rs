//! Init containers, one after the other; sidecars among them stay up from then on.

use super::container::{Role, keep, started};
use super::{Input, Plan, View, Waiting, inits, is_sidecar};
use crate::observed::Sandbox;

/// Keeps the init phase going; true once the pod's main containers may run.
pub(super) fn done(input: &Input<'_>, view: &View<'_>, sandbox: &Sandbox, plan: &mut Plan) -> bool {
    let initialized = view.initialized();
    for init in inits(input.pod) {
        let run = view.run(&init.name);
        let through = if is_sidecar(init) {
            keep(input, view, sandbox, init, Role::Init, plan);
            run.running().is_some_and(|c| {
                c.sandbox_id == sandbox.id && !is_starting(input, &init.name) && started(input, init, &c.id)
            })
        } else if initialized {
            true
        } else {
            let done = run.sandbox_id() == Some(&sandbox.id) && run.ended().is_some_and(|e| e.code == 0);
            if !done {
                keep(input, view, sandbox, init, Role::Init, plan);
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

/// Its start, postStart hook included, is under way.
fn is_starting(input: &Input<'_>, name: &str) -> bool {
    input.under_way.contains(&super::Key::Container(name.to_owned()))
}
