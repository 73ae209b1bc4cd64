//! What is written of a pod's status: what differs, and nothing that others say. Pure.

use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Map, Value, json};

use super::line::is_over;
use crate::observed::PodUid;

/// The fields that a kubelet says, one by one.
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
/// Fields that do not change any more once a pod has come to its end.
const OF_THE_END: [&str; 3] = ["phase", "reason", "message"];
/// Lists of which what is not named would stay.
const MERGED: [&str; 2] = ["hostIPs", "podIPs"];
/// The condition that a scheduler says; a kubelet says it only where nobody has.
const SCHEDULED: &str = "PodScheduled";

/// What is to be written, as a strategic merge that only ever meets the pod of that UID; `None` where all is told.
pub fn patch(uid: &PodUid, there: &PodStatus, own: &PodStatus) -> Option<Value> {
    let (stands, status) = (json(there), json(own));
    let mut patch = Map::new();
    for field in FIELDS {
        let (before, now) = (stands.get(field), status.get(field));
        if before == now || is_over(there) && OF_THE_END.contains(&field) {
            continue;
        }
        let mut value = now.cloned().unwrap_or(Value::Null);
        if MERGED.contains(&field)
            && let Some(list) = value.as_array_mut()
        {
            list.push(json!({"$patch": "replace"}));
        }
        patch.insert(field.to_owned(), value);
    }
    let none = Vec::new();
    let of = |status: &Map<String, Value>| {
        status.get("conditions").and_then(Value::as_array).unwrap_or(&none).clone()
    };
    let (told, own) = (of(&stands), of(&status));
    let news = |condition: Value| {
        let Some(before) = told.iter().find(|told| told["type"] == condition["type"]) else {
            return Some(condition);
        };
        let is_news = condition["type"] != SCHEDULED && *before != condition;
        is_news.then(|| in_place_of(before, condition))
    };
    let news: Vec<Value> = own.into_iter().filter_map(news).collect();
    if !news.is_empty() {
        patch.insert("conditions".to_owned(), news.into());
    }
    (!patch.is_empty()).then(|| json!({"metadata": {"uid": uid.as_str()}, "status": patch}))
}

/// A condition that takes the place of another: in a merge, what is not named stays as it was.
fn in_place_of(before: &Value, mut condition: Value) -> Value {
    if let (Some(before), Some(now)) = (before.as_object(), condition.as_object_mut()) {
        for field in before.keys() {
            now.entry(field.as_str()).or_insert(Value::Null);
        }
    }
    condition
}

/// As it is written.
fn json(status: &PodStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
