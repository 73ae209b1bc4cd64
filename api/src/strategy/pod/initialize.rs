//! The subresource `pods/finalize`: a pod initializer sets missing fields of a pod with scheduling gates, but changes
//! none.

use std::collections::HashSet;

use super::{check_whole, gates, qos_class, update};
use crate::dotted::set;
use crate::equal::equal;
use crate::schema;
use crate::shape::{Form, List, Shape};
use crate::strategy::Json;
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;

/// The error for a changed field.
const SET_FIELD_IS_IMMUTABLE: &str =
    "set fields are immutable here: an initializer can set missing fields and add the digest to an image";
/// Fields that have their own checks. Each name is unique in a pod.
const CHECKED_SEPARATELY: [&str; 5] =
    ["schedulingGates", "tolerations", "nodeSelectorTerms", "priority", "preemptionPolicy"];
/// Fields that cannot be set through this subresource, with the reason. Each name is unique in a pod.
const SET_ELSEWHERE: [(&str, &str); 4] = [
    ("nodeName", "a Binding sets it after the last scheduling gate is removed"),
    ("ephemeralContainers", "use the subresource ephemeralcontainers of a running pod"),
    ("runtimeClassName", "it is immutable, because the overhead depends on it"),
    ("overhead", "the runtime class determines it"),
];

/// Keeps the status, except for the fields that depend on the spec.
pub(super) fn prepare(pod: &mut Json, before: &Json) {
    set(pod, "status", before.get("status").cloned());
    gates::follow(pod, before);
    let class = qos_class(pod);
    set(pod, "status.qosClass", Some(class.into()));
}

/// Rejects changes that do more than set missing fields.
pub(super) fn check(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    let (spec, was) = (&new.at("spec"), &old.at("spec"));
    let (gates, gates_before) = (&spec.at("schedulingGates"), &was.at("schedulingGates"));
    if gates_before.is_empty() {
        return causes
            .forbidden(gates, "the pod has no scheduling gates left, so it cannot be initialized any more");
    }
    check_whole(new, causes);
    update::gates(gates, gates_before, causes);
    update::tolerations(&spec.at("tolerations"), &was.at("tolerations"), causes);
    update::node_affinity(spec, was, causes);
    for (field, why) in SET_ELSEWHERE {
        let (now, before) = (&spec.at(field), &was.at(field));
        let is_none = now.is_empty() && before.is_empty();
        if !is_none && !equal(now.value(), before.value()) {
            causes.forbidden(now, why);
        }
    }
    // Setting a missing priority class also sets priority and preemption policy, which admission resolves.
    if !was.at("priorityClassName").is_empty() || spec.at("priorityClassName").is_empty() {
        causes.immutable(spec, was, &["priority", "preemptionPolicy"]);
    }
    let shape = schema::shape("v1", "Pod");
    let of_metadata = shape.at("metadata").shape;
    for field in ["labels", "annotations"] {
        let (new, old) = (&new.at("metadata"), &old.at("metadata"));
        check_superset(&new.at(field), &old.at(field), of_metadata.at(field).shape, causes);
    }
    check_superset(spec, was, shape.at("spec").shape, causes);
}

/// Rejects a new value that does not contain all of the old value.
///
/// Empty strings and lists count as missing. Empty objects (`emptyDir: {}`) and map values (`"gpu": ""`) do not.
fn check_superset(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, shape: Shape<'_>, causes: &mut Causes) {
    if old.is_absent() || equal(new.value(), old.value()) {
        return;
    }
    match shape.form() {
        Form::Struct { .. } if old.fields().is_some() => {
            if new.fields().is_none() {
                return causes.forbidden(new, SET_FIELD_IS_IMMUTABLE);
            }
            for (name, was) in old.entries().filter(|(name, _)| !is_checked_separately(name)) {
                let now = new.at(name);
                if name != "image" || !is_digest_of(now.text(), was.text()) {
                    check_superset(&now, &was, shape.at(name).shape, causes);
                }
            }
        }
        Form::Map { .. } if old.fields().is_some() => {
            for (key, was) in old.entries() {
                let now = new.key(key);
                if !equal(now.value(), was.value()) {
                    causes.forbidden(&now, SET_FIELD_IS_IMMUTABLE);
                }
            }
        }
        Form::List { elements, list: List::Map(keys) } => check_list(new, old, keys, elements, causes),
        Form::List { .. } | Form::Scalar if old.is_empty() => {}
        Form::Struct { .. } | Form::Map { .. } | Form::List { .. } | Form::Scalar | Form::Unknown => {
            causes.forbidden(new, SET_FIELD_IS_IMMUTABLE);
        }
    }
}

/// True for fields that [`check_superset`] skips.
fn is_checked_separately(name: &str) -> bool {
    CHECKED_SEPARATELY.contains(&name) || SET_ELSEWHERE.iter().any(|(field, _)| *field == name)
}

/// Checks a list: elements may be inserted, but existing ones keep their order. Environment variables can refer to
/// earlier ones, and init containers run in order.
fn check_list(
    new: &FieldValue<'_, '_>,
    old: &FieldValue<'_, '_>,
    keys: &[String],
    elements: Shape<'_>,
    causes: &mut Causes,
) {
    let called = |element: &FieldValue<'_, '_>| -> Vec<String> {
        keys.iter().map(|key| element.at(key).value().to_string()).collect()
    };
    let known: HashSet<Vec<String>> = old.items().map(|was| called(&was)).collect();
    let kept: Vec<FieldValue<'_, '_>> = new.items().filter(|now| known.contains(&called(now))).collect();
    let is_in_order =
        kept.len() == old.len() && kept.iter().zip(old.items()).all(|(now, was)| called(now) == called(&was));
    if !is_in_order {
        return causes
            .forbidden(new, "existing elements must stay once and in their order; new ones may be inserted");
    }
    for (now, was) in kept.iter().zip(old.items()) {
        check_superset(now, &was, elements, causes);
    }
}

/// True if the new image is the old one with a digest, with or without the tag.
fn is_digest_of(new: &str, old: &str) -> bool {
    let Some((name, digest)) = new.rsplit_once("@sha256:") else { return false };
    let repository = match old.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => old,
    };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (name == old || name == repository)
        && !old.contains('@')
        && digest.len() == 64
        && digest.bytes().all(is_hex)
}

#[cfg(test)]
mod tests;
