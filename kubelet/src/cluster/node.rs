//! Computes what the kubelet writes to its Node: the whole object to register it, then patches with the
//! differences. Pure.

use api::resources::{ResourceList, is_extended};
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::pods::replace_list;
use crate::report::LOCAL_PATH_DIRECTORY;

/// Labels that the kubelet repairs if another client changes them, as the stock kubelet does. All other labels are
/// set once at registration.
const MANAGED_LABELS: [&str; 12] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/windows-build",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// The status fields that are compared as a whole.
const STATUS_FIELDS: [&str; 4] = ["addresses", "daemonEndpoints", "nodeInfo", "images"];

/// Whether the Node has conditions. It gets them after the first answer of the container engine.
pub fn is_complete(shown: &Map<String, Value>) -> bool {
    !conditions(shown).is_empty()
}

/// The Node object for the registration, with the pod CIDRs that the node requests.
pub fn new_node(shown: &Map<String, Value>, pod_cidrs: &[IpNet]) -> Value {
    let part = |name: &str| shown.get(name).cloned().unwrap_or_else(|| json!({}));
    let (metadata, mut spec) = (part("metadata"), part("spec"));
    if let Some(first) = pod_cidrs.first() {
        spec["podCIDR"] = first.to_string().into();
        spec["podCIDRs"] = pod_cidrs.iter().map(ToString::to_string).collect::<Vec<_>>().into();
    }
    let mut own = Map::new();
    for field in ["name", "labels"] {
        own.extend(metadata.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    let annotations = metadata.get("annotations").and_then(|all| all.get(LOCAL_PATH_DIRECTORY));
    own.extend(annotations.map(|path| ("annotations".to_owned(), json!({LOCAL_PATH_DIRECTORY: path}))));
    json!({"apiVersion": "v1", "kind": "Node", "metadata": own, "spec": spec, "status": part("status")})
}

/// The merge patch that repairs managed labels and the annotations of the kubelet, or `None` if they are correct.
pub fn metadata_patch(shown: &Map<String, Value>, current: &Value) -> Option<Value> {
    let changed = |field: &str, is_managed: fn(&str) -> bool| -> Map<String, Value> {
        let own = shown.get("metadata").and_then(|metadata| metadata.get(field)?.as_object());
        let current = &current["metadata"][field];
        let differs = own
            .into_iter()
            .flatten()
            .filter(|(name, value)| is_managed(name.as_str()) && current[*name] != **value);
        differs.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    let labels = changed("labels", |name| MANAGED_LABELS.contains(&name));
    let annotations = changed("annotations", |name| name == LOCAL_PATH_DIRECTORY);
    let mut metadata = Map::new();
    for (field, changed) in [("labels", labels), ("annotations", annotations)] {
        if !changed.is_empty() {
            metadata.insert(field.to_owned(), changed.into());
        }
    }
    (!metadata.is_empty()).then(|| json!({"metadata": metadata}))
}

/// The strategic merge patch of the status, with the fields that differ. It contains all conditions if one of them
/// differs in more than its heartbeat time, or if the heartbeat `is_due`.
///
/// A condition keeps the transition time that the Node has. If its status differs from the Node's, the transition
/// time is `now`. Conditions and extended resources of other clients are not changed.
pub fn status_patch(
    shown: &Map<String, Value>,
    current: &Value,
    is_due: bool,
    now: Timestamp,
) -> Option<Value> {
    let status = shown.get("status")?;
    let current = &current["status"];
    let mut patch = resource_patch(status, current);
    for field in STATUS_FIELDS {
        let value = &status[field];
        if !value.is_null() && *value != current[field] {
            let mut value = value.clone();
            // The only one of these lists that is merged by key.
            if field == "addresses" {
                replace_list(&mut value, current.get(field));
            }
            patch.insert(field.to_owned(), value);
        }
    }
    let current = current["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let current_condition = |own: &Value| current.iter().find(|posted| posted["type"] == own["type"]);
    let is_current =
        |own: &Value| current_condition(own).is_some_and(|posted| timeless(posted) == timeless(own));
    let own = conditions(shown);
    if patch.is_empty() && !is_due && own.iter().all(is_current) {
        return None;
    }
    // The kubelet updates its conditions at once when they change, so they are still true now.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let mut own = own.to_vec();
    for condition in &mut own {
        condition["lastHeartbeatTime"] = now.as_str().into();
        // Another client may have written another status meanwhile, usually `Unknown`.
        let since = match current_condition(condition) {
            Some(posted) if posted["status"] == condition["status"] => posted["lastTransitionTime"].clone(),
            Some(_) => now.as_str().into(),
            None => Value::Null,
        };
        if !since.is_null() {
            condition["lastTransitionTime"] = since;
        }
    }
    patch.insert("conditions".to_owned(), own.into());
    Some(json!({"status": patch}))
}

/// The part of the patch for capacity and allocatable. Another client may add extended resources to the capacity.
/// They are copied to allocatable, and removed from it with the capacity, as the stock kubelet does.
fn resource_patch(status: &Value, current: &Value) -> Map<String, Value> {
    let none = Map::new();
    let list = |of: &'_ Value, field: &str| of[field].as_object().unwrap_or(&none).clone();
    let (own, allocated) = (list(status, "capacity"), list(current, "allocatable"));
    let mut capacity = list(current, "capacity");
    capacity.extend(own.clone());
    let mut allocatable = list(status, "allocatable");
    for (name, amount) in &capacity {
        if !own.contains_key(name) {
            allocatable.insert(name.clone(), amount.clone());
        }
    }
    for name in allocated.keys().filter(|name| is_extended(name) && !capacity.contains_key(*name)) {
        allocatable.insert(name.clone(), Value::Null);
    }
    let mut patch = Map::new();
    for (field, wanted) in [("capacity", own), ("allocatable", allocatable)] {
        let differs = wanted.into_iter().filter(|(name, amount)| current[field][name] != *amount);
        let differs: Map<String, Value> = differs.collect();
        if !differs.is_empty() {
            patch.insert(field.to_owned(), differs.into());
        }
    }
    patch
}

/// The extended resources in the Node's allocatable.
pub fn extended(node: &Value) -> ResourceList {
    let all = node["status"]["allocatable"].as_object().into_iter().flatten();
    let own = all.filter(|(name, _)| is_extended(name));
    own.filter_map(|(name, amount)| Some((name.clone(), amount.as_str()?.parse().ok()?))).collect()
}

fn conditions(shown: &Map<String, Value>) -> &[Value] {
    let found = shown.get("status").and_then(|status| status.get("conditions")?.as_array());
    found.map(Vec::as_slice).unwrap_or_default()
}

/// The fields of a condition without its times. Times do not count as a difference.
fn timeless(condition: &Value) -> [&Value; 3] {
    ["status", "reason", "message"].map(|field| &condition[field])
}
