//! Tests of CustomResourceDefinitions and custom resources.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod definitions;
mod objects;
mod properties;
mod rules;
mod statuses;

use serde_json::{Value, json};

use crate::strategy::{Cause, Json};

/// A definition of crontabs with this schema for `spec`.
fn crontabs(spec: Value) -> Json {
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": {"type": "object", "properties": {
        "replicas": {"type": "integer"}, "selector": {"type": "string"}}}}});
    object(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced",
            "names": {
                "plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList",
                "shortNames": ["ct"], "categories": ["all"],
            },
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    }))
}

fn object(value: Value) -> Json {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

/// Formats causes as `field: message`.
fn messages(causes: &[Cause]) -> Vec<String> {
    causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

/// Sets the value at a JSON pointer whose parents exist; `null` removes it.
fn set(object: &mut Json, pointer: &str, value: Value) {
    let (room, last) = pointer.rsplit_once('/').unwrap();
    let mut at = Value::Object(std::mem::take(object));
    match (at.pointer_mut(room).unwrap(), value) {
        (Value::Object(fields), Value::Null) => drop(fields.remove(last)),
        (Value::Object(fields), value) => drop(fields.insert(last.to_owned(), value)),
        (Value::Array(elements), value) if last == "-" => elements.push(value),
        (Value::Array(elements), value) => elements[last.parse::<usize>().unwrap()] = value,
        (other, _) => panic!("{other} has no parts"),
    }
    *object = self::object(at);
}
