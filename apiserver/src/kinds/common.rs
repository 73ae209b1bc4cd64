//! Resources that a standalone kubelet and the control plane both serve: names, selectable fields and
//! columns.
//!
//! Each server adds its verbs and subresources.

use api::table;

use super::{CORE, field_labels, v1};
use crate::resource::Resource;

/// Pods.
pub fn pods() -> Resource {
    v1(CORE, "Pod", "pods", "pod").short(&["po"]).in_all().fields(field_labels::POD).columns(table::PODS)
}

/// Nodes.
pub fn nodes() -> Resource {
    let nodes = v1(CORE, "Node", "nodes", "node").short(&["no"]).cluster();
    nodes.fields(field_labels::NODE).columns(table::NODES)
}

/// Events.
pub fn events() -> Resource {
    v1(CORE, "Event", "events", "event").short(&["ev"]).fields(field_labels::EVENT).columns(table::EVENTS)
}

/// ConfigMaps.
pub fn config_maps() -> Resource {
    v1(CORE, "ConfigMap", "configmaps", "configmap").short(&["cm"]).columns(table::CONFIG_MAPS)
}

/// Secrets.
pub fn secrets() -> Resource {
    v1(CORE, "Secret", "secrets", "secret").fields(field_labels::SECRET).columns(table::SECRETS)
}
