//! Resources that both a lone kubelet and the control plane serve: names, selectable fields and columns.
//!
//! Each server adds its verbs and subresources.

use api::table;

use super::{CORE, DISCOVERY, ONE_BY_ONE, field_labels, v1};
use crate::resource::{Resource, Subresource};
use crate::write;

/// The row of pods.
pub fn pods() -> Resource {
    v1(CORE, "Pod", "pods", "pod").short(&["po"]).in_all().fields(field_labels::POD).columns(table::PODS)
}

/// The row of pods of a lone kubelet, with the subresources that a node offers.
pub fn node_pods() -> Resource {
    pods()
        .returns_deleted()
        .with_status()
        .part(Subresource::eviction())
        .part(Subresource::fields("ephemeralcontainers", write::ephemeral_containers))
}

/// The row of namespaces.
pub fn namespaces() -> Resource {
    v1(CORE, "Namespace", "namespaces", "namespace")
        .short(&["ns"])
        .cluster()
        .verbs(ONE_BY_ONE)
        .with_status()
        .part(Subresource { verbs: &["update"], ..Subresource::fields("finalize", write::finalizers) })
        .fields(field_labels::NAMESPACE)
        .columns(table::NAMESPACES)
}

/// The row of nodes.
pub fn nodes() -> Resource {
    let nodes = v1(CORE, "Node", "nodes", "node").short(&["no"]).cluster();
    nodes.fields(field_labels::NODE).columns(table::NODES)
}

/// The row of events.
pub fn events() -> Resource {
    v1(CORE, "Event", "events", "event").short(&["ev"]).fields(field_labels::EVENT).columns(table::EVENTS)
}

/// The row of ConfigMaps.
pub fn config_maps() -> Resource {
    v1(CORE, "ConfigMap", "configmaps", "configmap").short(&["cm"]).columns(table::CONFIG_MAPS)
}

/// The row of Secrets.
pub fn secrets() -> Resource {
    v1(CORE, "Secret", "secrets", "secret").fields(field_labels::SECRET).columns(table::SECRETS)
}

/// The row of Services.
pub fn services() -> Resource {
    v1(CORE, "Service", "services", "service")
        .returns_deleted()
        .short(&["svc"])
        .creates_on_update()
        .in_all()
        .with_status()
        .fields(field_labels::SERVICE)
        .columns(table::SERVICES)
}

/// The row of EndpointSlices.
pub fn endpoint_slices() -> Resource {
    v1(DISCOVERY, "EndpointSlice", "endpointslices", "endpointslice").columns(table::ENDPOINT_SLICES)
}
