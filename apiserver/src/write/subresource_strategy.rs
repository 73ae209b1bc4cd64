//! Merges the body of a subresource into the stored object: only some fields are updated.

use api::strategy::Json;
use serde_json::{Map, Value};

use super::object_meta::with_client_metadata;
use super::scale::{at, put};

/// Merges `pods/ephemeralcontainers`.
pub(crate) fn ephemeral_containers(before: &Json, sent: Json) -> Json {
    taken(before, &sent, &["spec.ephemeralContainers"])
}

/// Merges `namespaces/finalize`, with the metadata that clients may change.
pub(crate) fn finalizers(before: &Json, sent: Json) -> Json {
    with_client_metadata(taken(before, &sent, &["spec.finalizers"]), &sent)
}

/// Merges `certificatesigningrequests/approval`, with the metadata that clients may change.
pub(crate) fn approval(before: &Json, sent: Json) -> Json {
    with_client_metadata(taken(before, &sent, &["status.conditions"]), &sent)
}

/// Merges `pods/finalize`: labels, annotations and spec.
pub(crate) fn finished(before: &Json, sent: Json) -> Json {
    taken(before, &sent, &["metadata.labels", "metadata.annotations", "spec"])
}

/// Merges `pods/resize`: the resources of the pod and of existing containers.
pub(crate) fn resources(before: &Json, sent: Json) -> Json {
    let mut object = taken(before, &sent, &["spec.resources"]);
    for list in ["spec.containers", "spec.initContainers"] {
        let sent: Map<String, Value> = at(&sent, list)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|container| Some((container.get("name")?.as_str()?.to_owned(), container.clone())))
            .collect();
        let Some(mut containers) = at(before, list).and_then(Value::as_array).cloned() else { continue };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let Some(new) = sent.get(name) else { continue };
            for field in ["resources", "resizePolicy"] {
                match new.get(field) {
                    Some(value) => drop(container.insert(field.to_owned(), value.clone())),
                    None => drop(container.remove(field)),
                }
            }
        }
        put(&mut object, list, containers.into());
    }
    object
}

/// Returns the stored object with the fields at `paths` from `sent`.
fn taken(before: &Json, sent: &Json, paths: &[&str]) -> Json {
    let mut object = before.clone();
    for path in paths {
        match at(sent, path) {
            Some(value) => put(&mut object, path, value.clone()),
            None => take_out(&mut object, path),
        }
    }
    object
}

fn take_out(object: &mut Json, path: &str) {
    match path.split_once('.') {
        None => drop(object.remove(path)),
        Some((first, rest)) => {
            if let Some(inner) = object.get_mut(first).and_then(Value::as_object_mut) {
                take_out(inner, rest);
            }
        }
    }
}
