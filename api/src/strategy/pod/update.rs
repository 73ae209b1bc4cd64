//! Validates updates of pods. Only a few fields of the spec are mutable.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::equal::equal_fields;
use crate::strategy::Json;
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;

/// The stock message for a change of an immutable field; clients check its beginning.
const ONLY: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Rejects changes of immutable fields.
pub(super) fn check(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    let (new, old) = (&new.at("spec"), &old.at("spec"));
    let (Some(fields), Some(was)) = (new.fields(), old.fields()) else { return };
    // Most updates change only metadata.
    if equal_fields(fields, was) {
        return;
    }
    for list in ["containers", "initContainers"] {
        if new.at(list).len() != old.at(list).len() {
            return causes.forbidden(&new.at(list), "pod updates may not add or remove containers");
        }
    }
    deadline(&new.at("activeDeadlineSeconds"), &old.at("activeDeadlineSeconds"), causes);
    tolerations(&new.at("tolerations"), &old.at("tolerations"), causes);
    gates(&new.at("schedulingGates"), &old.at("schedulingGates"), causes);
    let mut rest = fields.clone();
    for list in ["containers", "initContainers"] {
        keep_images(&mut rest, was, list);
    }
    keep(&mut rest, was, &["activeDeadlineSeconds", "tolerations", "schedulingGates"]);
    if !old.at("schedulingGates").is_empty() {
        node_selector(&new.at("nodeSelector"), &old.at("nodeSelector"), causes);
        node_affinity(new, old, causes);
        keep(&mut rest, was, &["nodeSelector"]);
        keep_node_affinity(&mut rest, was);
    }
    const GRACE: &str = "terminationGracePeriodSeconds";
    if old.at(GRACE).number().is_some_and(|seconds| seconds < 0) && new.at(GRACE).number() == Some(1) {
        keep(&mut rest, was, &[GRACE]);
    }
    if rest != *was {
        let differs = rest.iter().chain(was).find(|(name, _)| rest.get(*name) != was.get(*name));
        let name = differs.map(|(name, _)| name.as_str()).unwrap_or_default();
        causes.forbidden(new, &format!("{ONLY}\nspec.{name} differs"));
    }
}

/// Resets mutable fields to their old values, so that the rest can be compared.
fn keep(rest: &mut Json, was: &Json, fields: &[&str]) {
    for field in fields {
        match was.get(*field) {
            Some(value) => drop(rest.insert((*field).to_owned(), value.clone())),
            None => drop(rest.remove(*field)),
        }
    }
}

fn keep_images(rest: &mut Json, was: &Json, list: &str) {
    let new = rest.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    let old = was.get(list).and_then(Value::as_array).into_iter().flatten();
    for (new, old) in new.filter_map(Value::as_object_mut).zip(old.filter_map(Value::as_object)) {
        keep(new, old, &["image"]);
    }
}

/// Keeps the old node affinity in the compared pod, because it is mutable. Pod affinity is not.
fn keep_node_affinity(rest: &mut Json, was: &Json) {
    let is_empty = |affinity: &Json| affinity.values().all(|part| *part == Value::Object(Json::new()));
    let old = was.get("affinity").and_then(Value::as_object);
    let mut affinity = rest.get("affinity").and_then(Value::as_object).cloned().unwrap_or_default();
    keep(&mut affinity, old.unwrap_or(&Json::new()), &["nodeAffinity"]);
    if old.is_none() && is_empty(&affinity) {
        rest.remove("affinity");
    } else {
        rest.insert("affinity".to_owned(), Value::Object(affinity));
    }
}

fn deadline(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    match (new.number(), old.number()) {
        (Some(new_seconds), Some(seconds)) if new_seconds > seconds => {
            causes.invalid(new, &format!("must be less than or equal to previous value ({seconds})"));
        }
        (None, Some(_)) => causes.invalid(new, "must not update from a positive integer to nil value"),
        _ => {}
    }
}

/// Requires that tolerations are only added. Of existing ones, only `tolerationSeconds` can change.
pub(super) fn tolerations(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    let bare = |toleration: FieldValue<'_, '_>| {
        let fields: BTreeMap<String, String> = (toleration.fields().into_iter().flatten())
            .filter(|(name, _)| *name != "tolerationSeconds")
            .map(|(name, value)| (name.clone(), value.to_string()))
            .collect();
        fields
    };
    let all: BTreeSet<_> = new.items().map(bare).collect();
    if old.items().any(|toleration| !all.contains(&bare(toleration))) {
        causes.forbidden(new, "existing tolerations can not be modified except its tolerationSeconds");
    }
}

/// Requires that scheduling gates are only removed.
pub(super) fn gates(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    let known: BTreeSet<&str> = old.items().map(|gate| gate.at("name").text()).collect();
    for gate in new.items() {
        let name = gate.at("name").text();
        if !known.contains(name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            causes.forbidden(&gate.at("name"), &why);
        }
    }
}

fn node_selector(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    if old.entries().any(|(key, value)| new.key(key).value() != value.value()) {
        causes.invalid(new, "only additions to spec.nodeSelector are allowed (no mutations or deletions)");
    }
}

/// Requires that the terms of the required node affinity are only narrowed.
pub(super) fn node_affinity(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    const TERMS: &str =
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let (new, old) = (&new.at(TERMS), &old.at(TERMS));
    if old.is_empty() {
        return;
    }
    if new.len() != old.len() {
        return causes.invalid(new, "no additions/deletions to non-empty NodeSelectorTerms list are allowed");
    }
    for (new, old) in new.items().zip(old.items()) {
        let narrows = ["matchExpressions", "matchFields"].iter().all(|list| {
            let kept =
                new.at(list).items().zip(old.at(list).items()).all(|(new, old)| new.value() == old.value());
            kept && new.at(list).len() >= old.at(list).len()
        });
        if !narrows {
            causes.invalid(&new, "only additions are allowed (no mutations or deletions)");
        }
    }
}
