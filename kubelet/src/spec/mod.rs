//! From a pod to what the engine is asked to make: pure, so that the same pod on the same node always becomes the same thing.
//!
//! The order for a container: [`Environment::of`], then its mounts (the room `volumes`), then [`container()`].

mod container;
mod dns;
pub mod env;
mod error;
mod facts;
mod fields;
pub mod hash;
mod links;
mod resources;
mod sandbox;
mod security;
mod support;
mod sysctl;

pub use container::{ContainerInput, container};
pub use env::{Environment, needs_pod_ip};
pub use error::{ConfigError, Note};
pub use facts::{CgroupDriver, Facts};
pub(crate) use fields::{metadata_field, resource_field};
pub use sandbox::{notes, sandbox};
pub(crate) use security::only_user;
pub use security::seccomp_file;
pub use support::{Refusal, refusals};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use crate::observed::PodUid;
use crate::runtime::spec::{Identity, Resources};

/// The first sysctl of a pod that this node does not allow.
pub fn forbidden_sysctl(pod: &Pod, facts: &Facts) -> Option<ConfigError> {
    sysctl::of(pod, facts).err()
}

/// The namespace of a pod that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// The pod's own cgroup: its path as the engine is told, whether it is of the Burstable class, and its limits.
pub fn pod_cgroup(pod: &Pod, facts: &Facts) -> Option<(String, bool, Resources)> {
    resources::of_pod(pod.spec.as_ref()?, pod.metadata.uid.as_deref()?, facts)
}

/// The namespace a pod lives in.
pub(crate) fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or(DEFAULT_NAMESPACE)
}

/// All containers of a pod, init containers first.
pub(crate) fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

/// True when the pod lives in the host's network.
pub(crate) fn host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true))
}

/// Whose container it is, as its labels will say.
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

/// The pod's spec, or an error for a pod that has none.
fn spec_of(pod: &Pod) -> Result<&PodSpec, ConfigError> {
    pod.spec
        .as_ref()
        .ok_or_else(|| ConfigError::container("the pod has no spec: give it one with at least one container"))
}
