//! What a node writes of its Node: all of it when it registers, and then what has changed. Pure.

use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Labels that are set again where somebody changed them, as the stock kubelet does; all others are said once, and then they are the
/// cluster's.
const OWN_LABELS: [&str; 12] = [
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
/// The fields of the status that are compared, one by one.
const STATUS: [&str; 6] = ["capacity", "allocatable", "addresses", "daemonEndpoints", "nodeInfo", "images"];

/// Whether what is shown says enough for others to go by: the engine has been asked.
pub fn is_whole(shown: &Map<String, Value>) -> bool {
    !conditions(shown).is_empty()
}

/// The Node that is made of what is shown, with the ranges that it asks for.
pub fn made(shown: &Map<String, Value>, claim: &[IpNet]) -> Value {
    let part = |name: &str| shown.get(name).cloned().unwrap_or_else(|| json!({}));
    let (metadata, mut spec) = (part("metadata"), part("spec"));
    if let Some(first) = claim.first() {
        spec["podCIDR"] = first.to_string().into();
        spec["podCIDRs"] = claim.iter().map(ToString::to_string).collect::<Vec<_>>().into();
    }
    let mut own = Map::new();
    for field in ["name", "labels"] {
        own.extend(metadata.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    json!({"apiVersion": "v1", "kind": "Node", "metadata": own, "spec": spec, "status": part("status")})
}

/// The labels to set again at a Node that is there, as a merge; `None` where all is as it should be.
pub fn relabelled(shown: &Map<String, Value>, there: &Value) -> Option<Value> {
    let labels = shown.get("metadata").and_then(|metadata| metadata.get("labels")?.as_object())?;
    let stands = &there["metadata"]["labels"];
    let changed =
        labels.iter().filter(|(name, value)| OWN_LABELS.contains(&name.as_str()) && stands[*name] != **value);
    let changed: Map<String, Value> = changed.map(|(name, value)| (name.clone(), value.clone())).collect();
    (!changed.is_empty()).then(|| json!({"metadata": {"labels": changed}}))
}

/// What is to be written of the status, as a strategic merge: what differs, and all conditions, where anything differs beyond the times
/// at which it was found so, or those are due. Since when it is so stands in the Node, and is now where the Node says something else.
/// Conditions of others stay.
pub fn restated(shown: &Map<String, Value>, there: &Value, is_due: bool, now: Timestamp) -> Option<Value> {
    let status = shown.get("status")?;
    let stands = &there["status"];
    let mut patch = Map::new();
    for field in STATUS {
        let value = &status[field];
        if !value.is_null() && *value != stands[field] {
            let mut value = value.clone();
            // Otherwise what is not named would stay.
            if field == "addresses"
                && let Some(list) = value.as_array_mut()
            {
                list.push(json!({"$patch": "replace"}));
            }
            patch.insert(field.to_owned(), value);
        }
    }
    let there = stands["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let told_of = |own: &Value| there.iter().find(|told| told["type"] == own["type"]);
    let is_told = |own: &Value| told_of(own).is_some_and(|told| timeless(told) == timeless(own));
    let own = conditions(shown);
    if patch.is_empty() && !is_due && own.iter().all(is_told) {
        return None;
    }
    // What is shown changes as soon as it is not so any more: this is how it is now.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let mut own = own.to_vec();
    for condition in &mut own {
        condition["lastHeartbeatTime"] = now.as_str().into();
        // Others may have said something else meanwhile, `Unknown` as a rule, of which the node knows nothing.
        let since = match told_of(condition) {
            Some(told) if told["status"] == condition["status"] => told["lastTransitionTime"].clone(),
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

fn conditions(shown: &Map<String, Value>) -> &[Value] {
    let found = shown.get("status").and_then(|status| status.get("conditions")?.as_array());
    found.map(Vec::as_slice).unwrap_or_default()
}

/// A condition without the times: when it was looked at is no news, and since when it is so follows from it.
fn timeless(condition: &Value) -> [&Value; 3] {
    ["status", "reason", "message"].map(|field| &condition[field])
}
