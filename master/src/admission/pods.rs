//! Small readings of pods that several of admission share. Pure.

use std::collections::BTreeSet;

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Attempt, Operation};
use serde_json::{Map, Value};

/// Lists of containers that a pod is made with.
pub const CONTAINERS: [&str; 2] = ["initContainers", "containers"];

/// True when a pod is made.
pub fn is_new_pod(attempt: &Attempt<'_>) -> bool {
    attempt.is_of("pods") && attempt.operation == Operation::Create && attempt.subresource.is_none()
}

/// True when a pod that is there is written anew as a whole.
pub fn is_edited_pod(attempt: &Attempt<'_>) -> bool {
    attempt.is_of("pods") && attempt.operation == Operation::Update && attempt.subresource.is_none()
}

/// True when a pod that is there may come to ask for more.
pub fn may_grow(attempt: &Attempt<'_>) -> bool {
    attempt.is_of("pods")
        && attempt.operation == Operation::Update
        && matches!(attempt.subresource, Some("resize" | "finalize"))
}

/// True when what a gated pod lacks is filled in.
pub fn fills_in(attempt: &Attempt<'_>) -> bool {
    may_grow(attempt) && attempt.subresource == Some("finalize")
}

/// The names of the containers that the pod had before, whichever they are; a new pod had none.
pub fn known_containers(attempt: &Attempt<'_>) -> BTreeSet<String> {
    let before = attempt.old.and_then(spec);
    let all = CONTAINERS.iter().flat_map(|name| before.into_iter().flat_map(|spec| list(spec, name)));
    all.filter_map(|container| container.get("name")?.as_str().map(str::to_owned)).collect()
}

/// A refusal of what is attempted; `why` ends the sentence.
pub fn forbidden(attempt: &Attempt<'_>, why: &str) -> Status {
    Status::forbidden(&attempt.resource.qualified().to_string(), attempt.name, why)
}

/// The field of an object that is an object itself, made if it has none; `None` when it is something else.
pub fn field<'a>(object: &'a mut Json, name: &str) -> Option<&'a mut Json> {
    let value = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// The spec of a pod.
pub fn spec(pod: &Json) -> Option<&Json> {
    pod.get("spec").and_then(Value::as_object)
}

/// A text, empty when there is none.
pub fn text<'a>(object: &'a Json, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A list of the spec.
pub fn list<'a>(spec: &'a Json, name: &str) -> impl Iterator<Item = &'a Value> {
    spec.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// A list of the spec, made if there is none; `None` when it is something else.
pub fn list_mut<'a>(spec: &'a mut Json, name: &str) -> Option<&'a mut Vec<Value>> {
    let value = spec.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut()
}
