//! Describes pods of orphaned containers. Without a checkpoint, only the container labels describe such a pod.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::observed;
use crate::pleg::KnownPod;

/// Returns a pod with only metadata.
pub(super) fn placeholder(orphan: &KnownPod) -> Pod {
    let metadata = ObjectMeta {
        name: Some(orphan.name.clone()),
        namespace: Some(orphan.namespace.clone()),
        uid: Some(orphan.uid.as_str().to_owned()),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: Some(PodSpec::default()), ..Pod::default() }
}

/// Adds the existing containers to a pod without a known spec. `None` if the spec is known.
pub(super) fn completed(pod: &Pod, observed: &observed::Pod) -> Option<Pod> {
    let spec = pod.spec.as_ref().filter(|spec| spec.containers.is_empty())?;
    let mut containers: Vec<Container> = Vec::new();
    for seen in &observed.containers {
        if containers.iter().all(|container| container.name != seen.name) {
            let (name, image) = (seen.name.clone(), Some(seen.image.clone()));
            containers.push(Container { name, image, ..Container::default() });
        }
    }
    (!containers.is_empty())
        .then(|| Pod { spec: Some(PodSpec { containers, ..spec.clone() }), ..pod.clone() })
}
