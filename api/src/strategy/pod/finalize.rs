//! What may be filled in of a pod that waits behind a gate: what is missing. What is said stays.

use std::collections::HashSet;

use super::{check_whole, gates, qos_class, update};
use crate::equal::equal;
use crate::schema;
use crate::shape::{Form, List, Shape};
use crate::strategy::Json;
use crate::strategy::causes::Causes;
use crate::strategy::fill::set;
use crate::strategy::place::Place;

/// What is said of a field that would say something else.
const STAYS: &str = "what is said stays: a finalizer fills in what is missing, and adds the digest to an image of its repository";
/// Fields that have rules of their own, by names that stand in one place of a pod each.
const APART: [&str; 5] =
    ["schedulingGates", "tolerations", "nodeSelectorTerms", "priority", "preemptionPolicy"];
/// Fields that are decided elsewhere, and where; by names that stand in one place, too.
const ELSEWHERE: [(&str, &str); 4] = [
    ("nodeName", "a Binding gives a pod its node, once no gate is left"),
    ("ephemeralContainers", "they are added to a pod that runs, by its ephemeralcontainers"),
    ("runtimeClassName", "it is decided when a pod is made: its overhead follows it"),
    ("overhead", "it is that of the runtime class"),
];

/// Keeps the status, apart from what follows from the spec.
pub(super) fn prepare(pod: &mut Json, before: &Json) {
    set(pod, "status", before.get("status").cloned());
    gates::follow(pod, before);
    let class = qos_class(pod);
    set(pod, "status.qosClass", Some(class.into()));
}

/// Notes what was changed instead of filled in.
pub(super) fn check(new: &Place<'_, '_>, old: &Place<'_, '_>, causes: &mut Causes) {
    let (spec, was) = (&new.at("spec"), &old.at("spec"));
    let (gates, gates_before) = (&spec.at("schedulingGates"), &was.at("schedulingGates"));
    if gates_before.is_empty() {
        return causes.forbidden(gates, "there is none left: nobody finishes this pod any more");
    }
    check_whole(new, causes);
    update::gates(gates, gates_before, causes);
    update::tolerations(&spec.at("tolerations"), &was.at("tolerations"), causes);
    update::node_affinity(spec, was, causes);
    for (field, why) in ELSEWHERE {
        let (now, before) = (&spec.at(field), &was.at(field));
        let is_none = now.is_empty() && before.is_empty();
        if !is_none && !equal(now.value(), before.value()) {
            causes.forbidden(now, why);
        }
    }
    // A class that was missing brings both along; admission says what they are.
    if !was.at("priorityClassName").is_empty() || spec.at("priorityClassName").is_empty() {
        causes.frozen(spec, was, &["priority", "preemptionPolicy"]);
    }
    let shape = schema::shape("v1", "Pod");
    let of_metadata = shape.at("metadata").shape;
    for field in ["labels", "annotations"] {
        let (new, old) = (&new.at("metadata"), &old.at("metadata"));
        grown(&new.at(field), &old.at(field), of_metadata.at(field).shape, causes);
    }
    grown(spec, was, shape.at("spec").shape, causes);
}

/// Notes where a value does not say all that it said before.
///
/// An empty text or list says nothing. An empty object does (`emptyDir: {}`), and so does every key of a map (`"gpu": ""`).
fn grown(new: &Place<'_, '_>, old: &Place<'_, '_>, shape: Shape<'_>, causes: &mut Causes) {
    if old.is_absent() || equal(new.value(), old.value()) {
        return;
    }
    match shape.form() {
        Form::Struct { .. } if old.fields().is_some() => {
            if new.fields().is_none() {
                return causes.forbidden(new, STAYS);
            }
            for (name, was) in old.entries().filter(|(name, _)| !is_apart(name)) {
                let now = new.at(name);
                if name != "image" || !is_digest_of(now.text(), was.text()) {
                    grown(&now, &was, shape.at(name).shape, causes);
                }
            }
        }
        Form::Map { .. } if old.fields().is_some() => {
            for (key, was) in old.entries() {
                let now = new.key(key);
                if !equal(now.value(), was.value()) {
                    causes.forbidden(&now, STAYS);
                }
            }
        }
        Form::List { elements, list: List::Map(keys) } => listed(new, old, keys, elements, causes),
        Form::List { .. } | Form::Scalar if old.is_empty() => {}
        Form::Struct { .. } | Form::Map { .. } | Form::List { .. } | Form::Scalar | Form::Unknown => {
            causes.forbidden(new, STAYS);
        }
    }
}

/// True for fields that [`grown`] says nothing about.
fn is_apart(name: &str) -> bool {
    APART.contains(&name) || ELSEWHERE.iter().any(|(field, _)| *field == name)
}

/// Elements may come between those that are there, which keep their order: what a later variable says may rest on an
/// earlier one, and init containers run one after the other.
fn listed(
    new: &Place<'_, '_>,
    old: &Place<'_, '_>,
    keys: &[String],
    elements: Shape<'_>,
    causes: &mut Causes,
) {
    let called = |element: &Place<'_, '_>| -> Vec<String> {
        keys.iter().map(|key| element.at(key).value().to_string()).collect()
    };
    let known: HashSet<Vec<String>> = old.items().map(|was| called(&was)).collect();
    let kept: Vec<Place<'_, '_>> = new.items().filter(|now| known.contains(&called(now))).collect();
    let is_in_order =
        kept.len() == old.len() && kept.iter().zip(old.items()).all(|(now, was)| called(now) == called(&was));
    if !is_in_order {
        return causes
            .forbidden(new, "what is there stays, once each and in its order; more may come between");
    }
    for (now, was) in kept.iter().zip(old.items()) {
        grown(now, &was, elements, causes);
    }
}

/// True for the image that is there, named by its digest: the same repository, with or without the tag.
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
