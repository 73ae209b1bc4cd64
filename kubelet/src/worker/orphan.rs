//! A pod of which nothing was written down: what the engine knows of it is all there is.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::observe::Known;
use crate::observed;

/// A pod of which nothing but its name is known.
pub(super) fn named(orphan: &Known) -> Pod {
    let metadata = ObjectMeta {
        name: Some(orphan.name.clone()),
        namespace: Some(orphan.namespace.clone()),
        uid: Some(orphan.uid.as_str().to_owned()),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: Some(PodSpec::default()), ..Pod::default() }
}

/// The same with the containers that are there; `None` of a pod of which more is known.
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
