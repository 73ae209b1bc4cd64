//! One container of a pod, as the engine is asked to make it.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::env::Environment;
use super::error::ConfigError;
use super::facts::Facts;
use super::{hash, identity, resources, sandbox, security, spec_of};
use crate::observed::Sandbox;
use crate::runtime::Image;
use crate::runtime::spec::{ContainerSpec, Mount, Termination};

/// Where a container leaves its last words unless it says otherwise.
const TERMINATION_PATH: &str = "/dev/termination-log";

/// All that one container is made from.
pub struct ContainerInput<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The container, init containers, sidecars and ephemeral ones alike.
    pub container: &'a Container,
    /// Engine id of the container whose processes it is to see, where it asks for one.
    pub target: Option<&'a str>,
    /// Facts of the node.
    pub facts: &'a Facts,
    /// The sandbox it joins.
    pub sandbox: &'a Sandbox,
    /// The image it runs.
    pub image: &'a Image,
    /// Its variables.
    pub environment: &'a Environment,
    /// Its volumes, as the room `volumes` has mounted them.
    pub mounts: Vec<Mount>,
    /// What the file holds that [`super::seccomp_file`] names; `None` when it names none, or there is none.
    pub seccomp: Option<&'a str>,
    /// Restarts before this one.
    pub attempt: u32,
    /// How long a restart waits should this attempt end.
    pub back_off: Duration,
    /// The file on the host that takes the termination message.
    pub termination_file: &'a Path,
}

/// Describes a container.
///
/// # Errors
/// The pod asks for something that no container can be; the message names the field.
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
