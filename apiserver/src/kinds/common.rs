//! Kinds that a lone node serves as a master does: their names, what may be asked of them, and how a table of them looks.
//!
//! Who serves them says what may be done with them, and adds the parts that it has.

use api::table;

use super::{CORE, v1};
use crate::resource::Resource;

/// What field selectors may ask of a pod.
pub(super) const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.hostNetwork",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
    // Whose turn it is to finish the pod; no stock server knows it.
    "spec.schedulingGates[0].name",
];
/// What field selectors may ask of an event.
const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// Pods.
pub fn pods() -> Resource {
    v1(CORE, "Pod", "pods", "pod").short(&["po"]).in_all().fields(POD_FIELDS).columns(table::PODS)
}

/// Nodes.
pub fn nodes() -> Resource {
    let nodes = v1(CORE, "Node", "nodes", "node").short(&["no"]).cluster();
    nodes.fields(&["spec.unschedulable"]).columns(table::NODES)
}

/// Events.
pub fn events() -> Resource {
    v1(CORE, "Event", "events", "event").short(&["ev"]).fields(EVENT_FIELDS).columns(table::EVENTS)
}

/// ConfigMaps.
pub fn config_maps() -> Resource {
    v1(CORE, "ConfigMap", "configmaps", "configmap").short(&["cm"]).columns(table::CONFIG_MAPS)
}

/// Secrets.
pub fn secrets() -> Resource {
    v1(CORE, "Secret", "secrets", "secret").fields(&["type"]).columns(table::SECRETS)
}
