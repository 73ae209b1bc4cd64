//! Plans ephemeral containers (`kubectl debug`). Each is started once and never restarted, and does not affect the
//! pod phase.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod};

use super::view::Run;
use super::{Action, Input, Plan, View, spec};
use crate::observed::{Sandbox, State};

pub(crate) fn ephemerals(pod: &Pod) -> &[EphemeralContainer] {
    spec(pod).ephemeral_containers.as_deref().unwrap_or_default()
}

/// Converts an ephemeral container to a regular container. It has no ports, probes, lifecycle hooks and resources,
/// which ephemeral containers may not have.
pub(crate) fn as_container(ephemeral: &EphemeralContainer) -> Container {
    let of = ephemeral.clone();
    Container {
        name: of.name,
        image: of.image,
        image_pull_policy: of.image_pull_policy,
        command: of.command,
        args: of.args,
        working_dir: of.working_dir,
        env: of.env,
        env_from: of.env_from,
        volume_mounts: of.volume_mounts,
        volume_devices: of.volume_devices,
        security_context: of.security_context,
        stdin: of.stdin,
        stdin_once: of.stdin_once,
        tty: of.tty,
        termination_message_path: of.termination_message_path,
        termination_message_policy: of.termination_message_policy,
        ..Container::default()
    }
}

/// Adds the actions that start new ephemeral containers. They do not wait for init containers, because a user may
/// want to debug those.
pub(super) fn start_new(input: &Input<'_>, view: &View<'_>, sandbox: &Sandbox, plan: &mut Plan) {
    if !sandbox.state.is_running() || !input.history.volumes_mounted {
        return;
    }
    for EphemeralContainer { name, .. } in ephemerals(input.pod) {
        match view.run(name) {
            Run::Never => {
                let back_off = Duration::ZERO;
                plan.act(input, Action::CreateContainer { name: name.clone(), attempt: 0, back_off });
            }
            Run::Here(here) if here.state == State::Created && here.sandbox_id == sandbox.id => {
                plan.act(input, Action::StartContainer { name: name.clone(), id: here.id.clone() });
            }
            // Created for a sandbox that is gone, never started: replace it.
            Run::Here(here) if here.state == State::Created => {
                plan.act(input, Action::Remove { id: here.id.clone() });
            }
            Run::Here(_) | Run::Past { .. } => {}
        }
    }
}
