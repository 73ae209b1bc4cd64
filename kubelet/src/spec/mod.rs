//! Builds runtime specs from pods. Pure: the same pod on the same node always has the same spec.
//!
//! For a container, first [`Environment::of`] resolves the environment, then the module `volumes` prepares the
//! mounts, and then [`container()`] builds the spec.

mod app_armor;
mod container;
mod dns;
pub mod env;
mod facts;
mod fields;
pub mod hash;
mod links;
mod priority;
mod resources;
mod sandbox;
mod security;
mod support;
mod sysctl;

pub use app_armor::unenforceable as unenforceable_app_armor;
pub use container::{ContainerInput, container};
pub use env::{Environment, needs_pod_ip};
pub use facts::{CgroupDriver, Facts};
pub(crate) use fields::{metadata_field, resource_field};
pub use priority::{is_critical, priority, tolerates_no_schedule};
pub use sandbox::{notes, sandbox};
pub(crate) use security::only_user;
pub use security::seccomp_file;
pub use support::{Refusal, refusals};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use crate::observed::PodUid;
use crate::runtime::spec::{Identity, Resources};

/// The error for a pod that cannot run as it is. A retry helps only after the pod, the node or a referenced object
/// has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    /// Reason for events and for `state.waiting`.
    pub reason: &'static str,
    /// The message: what is wrong and what to do.
    pub message: String,
}

impl ConfigError {
    /// The error for a container without a valid spec.
    pub(crate) fn container(message: impl Into<String>) -> Self {
        Self { reason: "CreateContainerConfigError", message: message.into() }
    }

    /// The error for a sandbox without a valid spec.
    pub(crate) fn sandbox(message: impl Into<String>) -> Self {
        Self { reason: "FailedCreatePodSandBox", message: message.into() }
    }
}

/// A note about a pod that runs nevertheless. It is reported as a Warning event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Reason of the event.
    pub reason: &'static str,
    /// Message of the event.
    pub message: String,
}

/// The error for the first sysctl of a pod that this node forbids.
pub fn forbidden_sysctl(pod: &Pod, facts: &Facts) -> Option<ConfigError> {
    sysctl::of(pod, facts).err()
}

/// The errors that will always prevent this node from creating the sandbox or a container, each with the path of
/// its field. They come from the functions that are used for the actual creation. Images and references are not
/// checked.
pub fn certain_failures(pod: &Pod, facts: &Facts) -> Vec<(String, ConfigError)> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let mut failures = Vec::new();
    failures.extend(sandbox(pod, facts, 0, "").err().map(|error| ("spec".to_owned(), error)));
    for (path, container) in numbered(spec) {
        let runs_as_root = security::run_as_root_conflict(pod, container).err();
        failures.extend(runs_as_root.map(|error| (format!("{path}.securityContext"), error)));
        let resources = resources::of(container, facts).err();
        failures.extend(resources.map(|error| (format!("{path}.resources"), error)));
    }
    failures
}

/// The namespace of a pod without one.
const DEFAULT_NAMESPACE: &str = "default";

/// The cgroup of a pod: its path in the format of the driver, whether the pod is Burstable, and its limits.
pub fn pod_cgroup(pod: &Pod, facts: &Facts) -> Option<(String, bool, Resources)> {
    resources::of_pod(pod.spec.as_ref()?, pod.metadata.uid.as_deref()?, facts)
}

pub(crate) fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or(DEFAULT_NAMESPACE)
}

/// Init containers and main containers of a pod, in this order.
pub(crate) fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// Init containers and main containers of a pod, each with the path of its field.
fn numbered(spec: &PodSpec) -> impl Iterator<Item = (String, &Container)> {
    let inits = spec.init_containers.iter().flatten().enumerate();
    let inits = inits.map(|(at, container)| (format!("spec.initContainers[{at}]"), container));
    let containers = spec.containers.iter().enumerate();
    inits.chain(containers.map(|(at, container)| (format!("spec.containers[{at}]"), container)))
}

/// Whether the pod uses the host network.
pub(crate) fn host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true))
}

/// Identity of a container, for its labels.
fn identity(pod: &Pod, container: &str, attempt: u32, hash: String) -> Identity {
    Identity {
        uid: PodUid::new(pod.metadata.uid.as_deref().unwrap_or_default()),
        pod: pod.metadata.name.clone().unwrap_or_default(),
        namespace: namespace(pod).to_owned(),
        container: container.to_owned(),
        attempt,
        hash,
    }
}

/// The pod's spec, or an error if it has none.
fn spec_of(pod: &Pod) -> Result<&PodSpec, ConfigError> {
    pod.spec
        .as_ref()
        .ok_or_else(|| ConfigError::container("the pod has no spec: give it one with at least one container"))
}
