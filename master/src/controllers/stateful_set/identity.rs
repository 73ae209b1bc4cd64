//! The identity of a StatefulSet's pods: ordinals, names and labels. Pure.

use serde_json::{Map, Value, json};

use crate::controllers::workloads::claim::controller_reference;
use crate::controllers::workloads::history::POD_REVISION_LABEL;
use crate::controllers::workloads::names;
use crate::objects::StatefulSet;
use client::Kind;

/// The label of a pod with its name, so that a Service can select one pod.
pub const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
/// The label of a pod with its ordinal.
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// Returns the name of the pod with an ordinal.
pub fn pod_name(set: &str, ordinal: i64) -> String {
    format!("{set}-{ordinal}")
}

/// Returns the name of a pod's claim of a template.
pub fn claim_name(template: &str, pod: &str) -> String {
    format!("{template}-{pod}")
}

/// Returns the ordinal in the name of a pod. Returns `None` if the StatefulSet does not give this name to a pod.
pub fn ordinal(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let ordinal: u32 = digits.parse().ok()?;
    // Other spellings, such as `web-01`, would be a second pod with the ordinal.
    (ordinal.to_string() == digits).then_some(i64::from(ordinal))
}

/// Returns the labels that identify a pod.
pub fn labels(name: &str, ordinal: i64) -> [(&'static str, String); 2] {
    [(POD_NAME_LABEL, name.to_owned()), (POD_INDEX_LABEL, ordinal.to_string())]
}

/// Returns a pod of a template, with the identity of an ordinal.
pub fn pod(set: &StatefulSet, template: &Value, ordinal: i64, revision: &str) -> Value {
    let owner = &set.metadata;
    let name = pod_name(&owner.name, ordinal);
    let mut metadata = Map::new();
    for field in ["labels", "annotations", "finalizers"] {
        let value = template.pointer(&format!("/metadata/{field}"));
        // A ControllerRevision may hold anything.
        if let Some(value) = value.filter(|value| value.is_object() == (field != "finalizers")) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let all = metadata.entry("labels").or_insert_with(|| Value::Object(Map::new()));
    for (label, value) in labels(&name, ordinal) {
        all[label] = value.into();
    }
    all[POD_REVISION_LABEL] = revision.into();
    metadata.insert("generateName".to_owned(), names::prefix(&owner.name).into());
    metadata.insert(
        "ownerReferences".to_owned(),
        json!([controller_reference(&Kind::STATEFUL_SET, &owner.name, &owner.uid)]),
    );
    let spec = template.get("spec").filter(|spec| spec.is_object());
    let mut spec = spec.cloned().unwrap_or_else(|| json!({}));
    spec["hostname"] = name.as_str().into();
    if !set.spec.service_name.is_empty() {
        spec["subdomain"] = (*set.spec.service_name).into();
    }
    let volumes = volumes(set, &name, spec.get("volumes"));
    if !volumes.is_empty() {
        spec["volumes"] = volumes.into();
    }
    metadata.insert("name".to_owned(), name.into());
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// Returns the volumes of a pod: its claims, and the other volumes of the template.
fn volumes(set: &StatefulSet, pod: &str, known: Option<&Value>) -> Vec<Value> {
    let names: Vec<&str> =
        set.spec.volume_claim_templates.iter().map(|template| &*template.metadata.name).collect();
    let of_claim =
        |name: &&str| json!({"name": name, "persistentVolumeClaim": {"claimName": claim_name(name, pod)}});
    let is_other = |volume: &&Value| {
        volume.get("name").and_then(Value::as_str).is_none_or(|name| !names.contains(&name))
    };
    let others = known.and_then(Value::as_array).into_iter().flatten().filter(is_other).cloned();
    names.iter().map(of_claim).chain(others).collect()
}

/// Returns the claim of a template for a pod, with the labels of the selector.
pub fn claim(set: &StatefulSet, template: &Value, pod: &str) -> Value {
    let mut claim = template.clone();
    let template_name = template.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let name = claim_name(template_name, pod);
    if let Some(fields) = claim.as_object_mut() {
        fields.shift_remove("status");
    }
    let metadata = &mut claim["metadata"];
    metadata["name"] = name.into();
    for (label, value) in set.spec.selector.match_labels.iter() {
        metadata["labels"][label] = value.into();
    }
    claim
}
