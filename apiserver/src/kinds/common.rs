//! Resources that both a lone kubelet and the control plane serve: names, selectable fields and columns.
//!
//! Each server adds its verbs and subresources.

use api::table;

use super::{CORE, field_labels, v1};
use crate::resource::Resource;

/// The row of pods.
pub fn pods() -> Resource {
    v1(CORE, "Pod", "pods", "pod").short(&["po"]).in_all().fields(field_labels::POD).columns(table::PODS)
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
