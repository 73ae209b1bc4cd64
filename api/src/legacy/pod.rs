//! Converts the fields of old Pods outside of containers.

use serde_json::{Map, Value, json};

use super::container;
use crate::field_error::FieldErrors;
use crate::path::Path;

pub(super) type Fields = Map<String, Value>;

pub(super) fn of_manifest(manifest: Value, errors: &mut FieldErrors) -> Value {
    let mut manifest = fields(manifest);
    let mut metadata = Fields::new();
    rename(&mut manifest, "id", &mut metadata, "name");
    rename(&mut manifest, "uuid", &mut metadata, "uid");
    manifest.remove("version");
    let spec = spec(manifest, &Path::ROOT, errors);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

pub(super) fn of_bound_pod(bound: Value, errors: &mut FieldErrors) -> Value {
    let mut bound = fields(bound);
    let mut metadata = Fields::new();
    rename(&mut bound, "id", &mut metadata, "name");
    for field in ["uid", "namespace", "annotations", "creationTimestamp", "generateName"] {
        rename(&mut bound, field, &mut metadata, field);
    }
    let mut spec = spec(fields(bound.remove("spec").unwrap_or_default()), &Path::ROOT.field("spec"), errors);
    if let Some(host) = spec.remove("host") {
        spec.insert("nodeName".to_owned(), host);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

pub(super) fn of_v1beta3(pod: Value, errors: &mut FieldErrors) -> Value {
    let mut pod = fields(pod);
    pod.insert("apiVersion".to_owned(), "v1".into());
    let status = fields(pod.remove("status").unwrap_or_default());
    let mut spec = fields(pod.remove("spec").unwrap_or_default());
    // v1beta3 had the node name in up to three fields.
    let spec_path = Path::ROOT.field("spec");
    let status_path = Path::ROOT.field("status");
    let hosts = [
        (spec.get("nodeName").cloned(), spec_path.field("nodeName")),
        (spec.remove("host"), spec_path.field("host")),
        (status.get("host").cloned(), status_path.field("host")),
    ];
    let mut hosts = hosts.into_iter().filter_map(|(host, path)| Some((host?.as_str()?.to_owned(), path)));
    let first = hosts.by_ref().find(|(host, _)| !host.is_empty());
    if let Some((host, at)) = &first {
        for (other, path) in hosts.filter(|(other, _)| !other.is_empty() && other != host) {
            let what = format!("`{other}` differs from {}, which is `{host}`", at.to_owned());
            errors.add(&path, what, "they are the same field: write the same value, or remove one of them");
        }
        spec.insert("nodeName".to_owned(), host.as_str().into());
    }
    for list in ["containers", "initContainers"] {
        each(&mut spec, list, container::of_v1beta3);
    }
    pod.insert("spec".to_owned(), spec.into());
    pod.into()
}

/// The spec of a ContainerManifest or a BoundPod.
fn spec(mut spec: Fields, path: &Path<'_>, errors: &mut FieldErrors) -> Fields {
    if let Some(policy) = spec.remove("restartPolicy") {
        let policy = fields(policy);
        let set: Vec<&String> = policy.keys().collect();
        match set.as_slice() {
            [] => {}
            [one] => {
                let policy = match one.as_str() {
                    "onFailure" => "OnFailure",
                    "never" => "Never",
                    _ => "Always",
                };
                spec.insert("restartPolicy".to_owned(), policy.into());
            }
            _ => errors.add(
                &path.field("restartPolicy"),
                "there are several restart policies",
                "keep one of always, onFailure, never",
            ),
        }
    }
    each(&mut spec, "volumes", volume);
    each(&mut spec, "containers", container::of_v1beta1);
    spec
}

fn volume(volume: &mut Fields) {
    let mut source = fields(volume.remove("source").unwrap_or_default());
    for (old, new) in [("hostDir", "hostPath"), ("persistentDisk", "gcePersistentDisk")] {
        if let Some(value) = source.remove(old) {
            source.insert(new.to_owned(), value);
        }
    }
    if let Some(Value::Object(secret)) = source.get_mut("secret") {
        let target = fields(secret.remove("target").unwrap_or_default());
        if let Some(name) = target.get("name").or_else(|| target.get("id")) {
            secret.insert("secretName".to_owned(), name.clone());
        }
    }
    volume.extend(source);
}

/// Calls `change` for each object of a list.
pub(super) fn each(of: &mut Fields, list: &str, change: impl Fn(&mut Fields)) {
    for element in of.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
        element.as_object_mut().into_iter().for_each(&change);
    }
}

/// Moves a field to another object under a new name.
pub(super) fn rename(from: &mut Fields, old: &str, to: &mut Fields, new: &str) {
    if let Some(value) = from.remove(old) {
        to.insert(new.to_owned(), value);
    }
}

/// The fields of an object; empty for other values, whose errors were reported before.
pub(super) fn fields(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    }
}
