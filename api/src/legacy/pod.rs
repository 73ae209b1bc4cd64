//! The Pod around the containers: names, volumes, restart policy, host.

use serde_json::{Map, Value, json};

use super::container;
use crate::fault::Faults;
use crate::path::Path;

pub(super) type Fields = Map<String, Value>;

pub(super) fn of_manifest(manifest: Value, faults: &mut Faults) -> Value {
    let mut manifest = fields(manifest);
    let mut metadata = Fields::new();
    rename(&mut manifest, "id", &mut metadata, "name");
    rename(&mut manifest, "uuid", &mut metadata, "uid");
    manifest.remove("version");
    let spec = spec(manifest, &Path::ROOT, faults);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

pub(super) fn of_bound_pod(bound: Value, faults: &mut Faults) -> Value {
    let mut bound = fields(bound);
    let mut metadata = Fields::new();
    rename(&mut bound, "id", &mut metadata, "name");
    for field in ["uid", "namespace", "annotations", "creationTimestamp", "generateName"] {
        rename(&mut bound, field, &mut metadata, field);
    }
    let mut spec = spec(fields(bound.remove("spec").unwrap_or_default()), &Path::ROOT.field("spec"), faults);
    if let Some(host) = spec.remove("host") {
        spec.insert("nodeName".to_owned(), host);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

pub(super) fn of_v1beta3(pod: Value, faults: &mut Faults) -> Value {
    let mut pod = fields(pod);
    pod.insert("apiVersion".to_owned(), "v1".into());
    let status = fields(pod.remove("status").unwrap_or_default());
    let mut spec = fields(pod.remove("spec").unwrap_or_default());
    // One fact, under the name it had in one version, and in the other.
    let spec_path = Path::ROOT.field("spec");
    let status_path = Path::ROOT.field("status");
    let told = [
        (spec.get("nodeName").cloned(), spec_path.field("nodeName")),
        (spec.remove("host"), spec_path.field("host")),
        (status.get("host").cloned(), status_path.field("host")),
    ];
    let mut told = told.into_iter().filter_map(|(host, path)| Some((host?.as_str()?.to_owned(), path)));
    let first = told.by_ref().find(|(host, _)| !host.is_empty());
    if let Some((host, at)) = &first {
        for (other, path) in told.filter(|(other, _)| !other.is_empty() && other != host) {
            let what = format!("`{other}` is not the host that {} tells: `{host}`", at.to_owned());
            faults.add(&path, what, "they are one fact: write the same, or remove one of them");
        }
        spec.insert("nodeName".to_owned(), host.as_str().into());
    }
    for list in ["containers", "initContainers"] {
        each(&mut spec, list, container::of_v1beta3);
    }
    pod.insert("spec".to_owned(), spec.into());
    pod.into()
}

/// The spec of a ContainerManifest or a BoundPod, which are the same in the parts that matter.
fn spec(mut spec: Fields, path: &Path<'_>, faults: &mut Faults) -> Fields {
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
            _ => faults.add(
                &path.field("restartPolicy"),
                "there are several policies",
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

/// Changes each object of a list.
pub(super) fn each(of: &mut Fields, list: &str, change: impl Fn(&mut Fields)) {
    for element in of.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
        element.as_object_mut().into_iter().for_each(&change);
    }
}

/// Moves a field to where it is called something else.
pub(super) fn rename(from: &mut Fields, old: &str, to: &mut Fields, new: &str) {
    if let Some(value) = from.remove(old) {
        to.insert(new.to_owned(), value);
    }
}

/// The fields of an object; none for anything else, which has been noted before.
pub(super) fn fields(value: Value) -> Fields {
    match value {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    }
}
