//! Builds the runtime spec of a container.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::ConfigError;
use super::env::Environment;
use super::facts::Facts;
use super::{hash, identity, resources, sandbox, security, spec_of};
use crate::observed::Sandbox;
use crate::runtime::Image;
use crate::runtime::spec::{ContainerSpec, Mount, Termination};

/// Default of `terminationMessagePath`.
const TERMINATION_PATH: &str = "/dev/termination-log";

/// Input for the spec of a container.
pub struct ContainerInput<'a> {
    pub pod: &'a Pod,
    /// The container. It may be an init, sidecar or ephemeral container.
    pub container: &'a Container,
    /// Engine id of the container whose pid namespace the container joins (`targetContainerName`).
    pub target: Option<&'a str>,
    /// Facts of the node.
    pub facts: &'a Facts,
    /// The sandbox that the container joins.
    pub sandbox: &'a Sandbox,
    pub image: &'a Image,
    /// The environment variables of the container.
    pub environment: &'a Environment,
    /// The mounts of the container, which the module `volumes` prepared.
    pub mounts: Vec<Mount>,
    /// Content of the file that [`super::seccomp_file`] names; `None` if it names none.
    pub seccomp: Option<&'a str>,
    /// Restart count.
    pub attempt: u32,
    /// Restart back-off if this attempt ends.
    pub back_off: Duration,
    /// File on the host for the termination message.
    pub termination_file: &'a Path,
}

/// Builds the spec of a container.
///
/// # Errors
/// If the pod requests something unsupported or contradictory. The message names the field.
pub fn container(input: ContainerInput<'_>) -> Result<ContainerSpec, ConfigError> {
    let ContainerInput { pod, container, environment, .. } = input;
    let spec = spec_of(pod)?;
    if let Some(device) = container.volume_devices.iter().flatten().next() {
        return Err(ConfigError::container(format!(
            "volumeDevices: {}: block volumes are not supported",
            device.name
        )));
    }
    let words = |list: &Option<Vec<String>>| {
        list.as_ref().filter(|l| !l.is_empty()).map(|l| l.iter().map(|w| environment.expand(w)).collect())
    };
    let termination = termination(container, input.termination_file);
    let mut mounts = input.mounts;
    mounts.push(Mount {
        source: termination.file.clone(),
        target: termination.path.clone(),
        read_only: false,
        propagation: "rprivate".to_owned(),
    });
    Ok(ContainerSpec {
        identity: identity(pod, &container.name, input.attempt, hash::container(pod, &container.name)),
        sandbox_id: input.sandbox.id.clone(),
        network: sandbox::network(pod),
        image: container.image.clone().unwrap_or_default(),
        image_id: input.image.id.clone(),
        command: words(&container.command),
        args: words(&container.args),
        working_dir: container.working_dir.clone().filter(|d| !d.is_empty()),
        env: environment.lines(),
        mounts,
        resources: resources::of(container, input.facts)?,
        oom_score_adj: resources::oom_score_adj(spec, container, input.facts),
        cgroup_parent: resources::cgroup_parent(
            spec,
            pod.metadata.uid.as_deref().unwrap_or_default(),
            input.facts,
        ),
        security: security::of(pod, container, input.image, input.seccomp)?,
        stdin: container.stdin == Some(true),
        stdin_once: container.stdin_once == Some(true),
        tty: container.tty == Some(true),
        host_pid: spec.host_pid == Some(true),
        host_ipc: spec.host_ipc == Some(true),
        processes_of: match input.target {
            Some(target) => Some(target.to_owned()),
            None => (spec.share_process_namespace == Some(true)).then(|| input.sandbox.id.clone()),
        },
        back_off: input.back_off,
        termination,
        stop_signal: container.lifecycle.as_ref().and_then(|l| l.stop_signal.clone()),
        labels: Default::default(),
    })
}

fn termination(container: &Container, file: &Path) -> Termination {
    let path = container.termination_message_path.as_deref().filter(|p| !p.is_empty());
    let policy = container.termination_message_policy.as_deref().filter(|p| !p.is_empty());
    Termination {
        path: path.unwrap_or(TERMINATION_PATH).to_owned(),
        policy: policy.unwrap_or("File").to_owned(),
        file: file.display().to_string(),
    }
}

#[cfg(test)]
mod tests;
