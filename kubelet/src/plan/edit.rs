//! A broken edit stops nothing: what is to replace something that runs is prepared first.

use super::{Action, Input, Plan, View, inits, spec};

/// True once the container could be made as it is wanted now; otherwise names the step that finds out.
pub(super) fn is_prepared(input: &Input<'_>, name: &str, plan: &mut Plan) -> bool {
    if input.history.prepared.get(name) == input.hashes.containers.get(name) {
        return true;
    }
    if input.history.volumes_mounted {
        plan.act(input, Action::PrepareContainer { name: name.to_owned() });
    }
    false
}

/// True once every container that is not there as it is wanted could be made.
pub(super) fn all_prepared(input: &Input<'_>, view: &View<'_>, plan: &mut Plan) -> bool {
    let mut all = true;
    for container in inits(input.pod).iter().chain(&spec(input.pod).containers) {
        if !view.is_current(&container.name, &view.run(&container.name)) {
            all &= is_prepared(input, &container.name, plan);
        }
    }
    all
}
