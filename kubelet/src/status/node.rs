//! Builds the Node object of the local API.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::pods::rfc3339;
use crate::report::{NodeCondition, NodeReport};

/// Annotation with manifest problems, as a JSON list of lines.
pub const PROBLEMS: &str = "coracle.dev/problems";

pub fn object(name: &str, uid: &str, report: &NodeReport, problems: &[String]) -> Map<String, Value> {
    let mut annotations = report.annotations.clone();
    if !problems.is_empty() {
        annotations.insert(PROBLEMS.to_owned(), json!(problems).to_string());
    }
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("uid".to_owned(), uid.into());
    if let Some(created_at) = report.created_at {
        metadata.insert("creationTimestamp".to_owned(), rfc3339(created_at).into());
    }
    set_map(&mut metadata, "labels", &report.labels);
    set_map(&mut metadata, "annotations", &annotations);

    let mut spec = Map::new();
    let taints = report.taints.iter();
    let taints: Vec<Value> =
        taints.map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effect})).collect();
    if !taints.is_empty() {
        spec.insert("taints".to_owned(), taints.into());
    }

    let mut status = Map::new();
    set_map(&mut status, "capacity", &report.capacity);
    set_map(&mut status, "allocatable", &report.allocatable);
    let conditions: Vec<Value> = report.conditions.iter().map(condition).collect();
    status.insert("conditions".to_owned(), conditions.into());
    let addresses = report.addresses.iter();
    let addresses: Vec<Value> =
        addresses.map(|(kind, address)| json!({"type": kind, "address": address})).collect();
    status.insert("addresses".to_owned(), addresses.into());
    if let Some(port) = report.kubelet_port {
        status.insert("daemonEndpoints".to_owned(), json!({"kubeletEndpoint": {"Port": port}}));
    }
    let info = &report.info;
    status.insert(
        "nodeInfo".to_owned(),
        json!({
            "machineID": info.machine_id,
            "systemUUID": info.system_uuid,
            "bootID": info.boot_id,
            "kernelVersion": info.kernel_version,
            "osImage": info.os_image,
            "containerRuntimeVersion": info.container_runtime_version,
            "kubeletVersion": info.kubelet_version,
            // There is no kube-proxy, but the field is required.
            "kubeProxyVersion": "",
            "operatingSystem": info.operating_system,
            "architecture": info.architecture,
        }),
    );
    let images = report.images.iter();
    let images: Vec<Value> =
        images.map(|image| json!({"names": image.names, "sizeBytes": image.size_bytes})).collect();
    if !images.is_empty() {
        status.insert("images".to_owned(), images.into());
    }

    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), "v1".into());
    object.insert("kind".to_owned(), "Node".into());
    object.insert("metadata".to_owned(), metadata.into());
    object.insert("spec".to_owned(), spec.into());
    object.insert("status".to_owned(), status.into());
    object
}

fn condition(condition: &NodeCondition) -> Value {
    json!({
        "type": condition.kind,
        "status": condition.status,
        "lastHeartbeatTime": rfc3339(condition.last_heartbeat),
        "lastTransitionTime": rfc3339(condition.last_transition),
        "reason": condition.reason,
        "message": condition.message,
    })
}

fn set_map(into: &mut Map<String, Value>, name: &str, from: &BTreeMap<String, String>) {
    if !from.is_empty() {
        into.insert(name.to_owned(), json!(from));
    }
}
