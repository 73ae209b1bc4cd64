//! Validates `x-kubernetes-list-type`, `x-kubernetes-list-map-keys` and `x-kubernetes-map-type`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Causes, is_set, text};
use crate::path::Path;

pub(super) fn lists(of: &Map<String, Value>, path: &Path<'_>, causes: &mut Causes) {
    let word = |keyword: &str| of.get(keyword).and_then(Value::as_str);
    let kind = word("type").unwrap_or_default();
    if let Some(map) = word("x-kubernetes-map-type") {
        expect(kind, "object", "must be object if x-kubernetes-map-type is specified", path, causes);
        if !["atomic", "granular"].contains(&map) {
            causes.not_supported(&path.field("x-kubernetes-map-type"), map, &["atomic", "granular"]);
        }
    }
    let list = word("x-kubernetes-list-type");
    let keys =
        of.get("x-kubernetes-list-map-keys").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let list_path = path.field("x-kubernetes-list-type");
    if list.is_some() {
        expect(kind, "array", "must be array if x-kubernetes-list-type is specified", path, causes);
    }
    match list {
        Some("set") => set(of.get("items"), &path.field("items"), causes),
        Some("map") => map(of.get("items"), keys, path, causes),
        None | Some("atomic") => {}
        Some(other) => causes.not_supported(&list_path, other, &["atomic", "map", "set"]),
    }
    if !keys.is_empty() && list != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list {
            None => causes.required(&list_path, why),
            Some(other) => causes.invalid(&list_path, &other.into(), why),
        }
    }
}

fn expect(kind: &str, expected: &str, why: &str, path: &Path<'_>, causes: &mut Causes) {
    match kind {
        "" => causes.required(&path.field("type"), why),
        kind if kind != expected => causes.invalid(&path.field("type"), &kind.into(), why),
        _ => {}
    }
}

/// Requires that the elements of a set are scalars or atomic.
fn set(items: Option<&Value>, path: &Path<'_>, causes: &mut Causes) {
    let Some(items) = items.and_then(Value::as_object) else { return };
    if is_set(items, "nullable") {
        causes.forbidden(&path.field("nullable"), "cannot be true when x-kubernetes-list-type is set");
    }
    let word = |keyword: &str| items.get(keyword).and_then(Value::as_str).unwrap_or_default();
    match word("type") {
        "object" if word("x-kubernetes-map-type") != "atomic" => causes.invalid(
            &path.field("x-kubernetes-map-type"),
            &word("x-kubernetes-map-type").into(),
            "must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        "array" if !matches!(word("x-kubernetes-list-type"), "" | "atomic") => causes.invalid(
            &path.field("x-kubernetes-list-type"),
            &word("x-kubernetes-list-type").into(),
            "must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        _ => {}
    }
}

/// Requires that the keys of a list of type `map` are scalar properties that are required or have a default.
fn map(items: Option<&Value>, keys: &[Value], path: &Path<'_>, causes: &mut Causes) {
    let keys_path = path.field("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        causes.required(&keys_path, "must not be empty if x-kubernetes-list-type is map");
    }
    let items_path = path.field("items");
    let Some(items) = items.filter(|items| items.is_object()) else {
        return causes.required(&items_path, "must have a schema if x-kubernetes-list-type is map");
    };
    let kind = text(Some(items), "type");
    if kind != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        causes.invalid(&items_path.field("type"), &kind.into(), why);
    }
    let required = |name: &str| {
        let required = items.get("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|required| required == name))
    };
    let mut seen = HashSet::new();
    for (at, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        if !seen.insert(name) {
            causes.invalid(&keys_path.index(at), key, "entries must not be duplicated");
        }
        let Some(property) = items.get("properties").and_then(|properties| properties.get(name)) else {
            causes.invalid(&keys_path.index(at), key, "entries must all be names of item properties");
            continue;
        };
        let properties = items_path.field("properties");
        let path = properties.key(name);
        let kind = text(Some(property), "type");
        if matches!(kind, "array" | "object") {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            causes.invalid(&path.field("type"), &kind.into(), why);
        }
        if !required(name) && property.get("default").is_none_or(Value::is_null) {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.required(&path.field("default"), why);
        }
        if property.get("nullable").is_some_and(|nullable| *nullable == true) {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.forbidden(&path.field("nullable"), why);
        }
    }
}
