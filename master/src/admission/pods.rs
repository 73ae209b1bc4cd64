//! Helpers that several admission plugins share, mostly for pods. Pure.

use std::collections::BTreeSet;

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{AdmissionRequest, Operation};
use serde_json::{Map, Value};

/// The container lists of a new pod.
pub const CONTAINERS: [&str; 2] = ["initContainers", "containers"];

pub fn is_new_pod(attempt: &AdmissionRequest<'_>) -> bool {
    attempt.is_of("pods") && attempt.operation == Operation::Create && attempt.subresource.is_none()
}

/// Whether the request updates a pod's main resource.
pub fn is_edited_pod(attempt: &AdmissionRequest<'_>) -> bool {
    attempt.is_of("pods") && attempt.operation == Operation::Update && attempt.subresource.is_none()
}

/// Whether the request may increase the resources of a pod.
pub fn may_grow(attempt: &AdmissionRequest<'_>) -> bool {
    attempt.is_of("pods")
        && attempt.operation == Operation::Update
        && matches!(attempt.subresource, Some("resize" | "finalize"))
}

/// Whether the request is that of a pod initializer, which completes a gated pod.
pub fn fills_in(attempt: &AdmissionRequest<'_>) -> bool {
    may_grow(attempt) && attempt.subresource == Some("finalize")
}

/// The names of the containers that the pod had before the request.
pub fn known_containers(attempt: &AdmissionRequest<'_>) -> BTreeSet<String> {
    let before = attempt.old.and_then(spec);
    let all = CONTAINERS.iter().flat_map(|name| before.into_iter().flat_map(|spec| list(spec, name)));
    all.filter_map(|container| container.get("name")?.as_str().map(str::to_owned)).collect()
}

/// Returns a 403 status for the request. `why` completes the sentence.
pub fn forbidden(attempt: &AdmissionRequest<'_>, why: &str) -> Status {
    Status::forbidden(&attempt.resource.qualified().to_string(), attempt.name, why)
}

/// Returns a nested object, created if it is missing. `None` if it has another type.
pub fn field<'a>(object: &'a mut Json, name: &str) -> Option<&'a mut Json> {
    let value = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// Returns `spec`.
pub fn spec(pod: &Json) -> Option<&Json> {
    pod.get("spec").and_then(Value::as_object)
}

/// Returns a string field; empty if it is missing.
pub fn text<'a>(object: &'a Json, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a list field; empty if it is missing.
pub fn list<'a>(spec: &'a Json, name: &str) -> impl Iterator<Item = &'a Value> {
    spec.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// Returns a list field, created if it is missing. `None` if it has another type.
pub fn list_mut<'a>(spec: &'a mut Json, name: &str) -> Option<&'a mut Vec<Value>> {
    let value = spec.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut()
}
