//! Computes the strategic merge patch of a pod's status. It contains the fields of the kubelet that differ, and no
//! field of other clients. Pure.

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Map, Value, json};

use super::server_pod::is_terminal;
use crate::observed::PodUid;

/// The status fields that the kubelet owns.
const FIELDS: [&str; 13] = [
    "phase",
    "reason",
    "message",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "startTime",
    "qosClass",
    "observedGeneration",
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];
/// Fields that do not change after the pod reached a terminal phase.
const FIXED_WHEN_TERMINAL: [&str; 3] = ["phase", "reason", "message"];
/// Lists that a strategic merge patch merges by key. Without a directive, elements that the patch lacks would stay.
const MERGED_LISTS: [&str; 2] = ["hostIPs", "podIPs"];
/// The condition of the scheduler. The kubelet writes it only if it is missing.
const SCHEDULED: &str = "PodScheduled";

/// The status patch, with the UID as precondition. `None` if nothing differs.
pub fn patch(uid: &PodUid, current: &PodStatus, own: &PodStatus) -> Option<Value> {
    let (current_fields, status) = (json(current), json(own));
    let mut patch = Map::new();
    for field in FIELDS {
        let (before, now) = (current_fields.get(field), status.get(field));
        if before == now || is_terminal(current) && FIXED_WHEN_TERMINAL.contains(&field) {
            continue;
        }
        let mut value = now.cloned().unwrap_or(Value::Null);
        if MERGED_LISTS.contains(&field) {
            replace_list(&mut value, before);
        }
        patch.insert(field.to_owned(), value);
    }
    let none = Vec::new();
    let of = |status: &Map<String, Value>| {
        status.get("conditions").and_then(Value::as_array).unwrap_or(&none).clone()
    };
    let (current_conditions, own) = (of(&current_fields), of(&status));
    let changed = |condition: Value| {
        let Some(before) = current_conditions.iter().find(|other| other["type"] == condition["type"]) else {
            return Some(condition);
        };
        let is_news = condition["type"] != SCHEDULED && *before != condition;
        is_news.then(|| in_place_of(before, condition))
    };
    let changed: Vec<Value> = own.into_iter().filter_map(changed).collect();
    if !changed.is_empty() {
        patch.insert("conditions".to_owned(), changed.into());
    }
    (!patch.is_empty()).then(|| json!({"metadata": {"uid": uid.as_str()}, "status": patch}))
}

/// Makes a list in a strategic merge patch replace the list `before`. A list that the object does not have yet gets
/// no directive. Stock servers before 1.30 store such a list with its directive, and then reject the object with
/// 422.
pub(in crate::cluster) fn replace_list(value: &mut Value, before: Option<&Value>) {
    if let Some(list) = value.as_array_mut()
        && before.and_then(Value::as_array).is_some_and(|before| !before.is_empty())
    {
        list.push(json!({"$patch": "replace"}));
    }
}

/// Prepares a condition that replaces `before`. Fields that only `before` has become null, because a merge would
/// keep them.
fn in_place_of(before: &Value, mut condition: Value) -> Value {
    if let (Some(before), Some(now)) = (before.as_object(), condition.as_object_mut()) {
        for field in before.keys() {
            now.entry(field.as_str()).or_insert(Value::Null);
        }
    }
    condition
}

/// The status as a JSON object.
fn json(status: &PodStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
