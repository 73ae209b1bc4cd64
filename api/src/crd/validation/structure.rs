//! Checks that a schema is structural: fields and types are defined outside of `allOf`, `anyOf`, `oneOf` and `not`.

use serde_json::{Map, Value};

use super::{Causes, is_set, text};
use crate::crd::schema::MAX_DEPTH;
use crate::path::Path;

/// Where a schema occurs: at the root, in a list, or in a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Reports all violations of the structural rules.
pub(super) fn structural(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    part(schema, Level::Root, path, 0, causes);
}

fn part(schema: &Value, level: Level, path: &Path<'_>, depth: usize, causes: &mut Causes) {
    let Some(of) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else { return };
    let kind = text(Some(schema), "type");
    let is_embedded = is_set(of, "x-kubernetes-embedded-resource");
    let preserves = is_set(of, "x-kubernetes-preserve-unknown-fields");
    let is_either = is_set(of, "x-kubernetes-int-or-string");
    if kind == "array" && !of.get("items").is_some_and(Value::is_object) {
        causes.required(&path.field("items"), "must be specified");
    }
    for (flag, keyword) in
        [(preserves, "x-kubernetes-preserve-unknown-fields"), (is_embedded, "x-kubernetes-embedded-resource")]
    {
        if is_either && flag {
            let why = "must be false if x-kubernetes-int-or-string is true";
            causes.invalid(&path.field(keyword), &true.into(), why);
        }
    }
    types(kind, level, (is_embedded, preserves || is_either), path, causes);
    if let Some(more) = of.get("additionalProperties").filter(|more| !more.is_null()) {
        let path = path.field("additionalProperties");
        if level == Level::Root {
            causes.forbidden(&path, "must not be used at the root");
        }
        if is_embedded {
            causes.forbidden(&path, "must not be used if x-kubernetes-embedded-resource is set");
        }
        part(more, Level::Field, &path, depth + 1, causes);
    }
    let properties = of.get("properties").and_then(Value::as_object);
    if level == Level::Root || is_embedded {
        meta(properties, level, &path.field("properties"), causes);
    }
    if is_embedded && !preserves && properties.is_none_or(Map::is_empty) {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        causes.required(&path.field("properties"), why);
    }
    if let Some(items) = of.get("items") {
        part(items, Level::Item, &path.field("items"), depth + 1, causes);
    }
    for (name, property) in properties.into_iter().flatten() {
        part(property, Level::Field, &path.field("properties").key(name), depth + 1, causes);
    }
    combined(of, Some(schema), path, path, depth, causes);
}

fn types(
    kind: &str,
    level: Level,
    (is_embedded, may_have_none): (bool, bool),
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let path = path.field("type");
    let embedded = "must be object if x-kubernetes-embedded-resource is true";
    match kind {
        "" if is_embedded => causes.required(&path, embedded),
        "object" => {}
        kind if is_embedded => causes.invalid(&path, &kind.into(), embedded),
        "" if may_have_none => {}
        "" => {
            let why = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            causes.required(&path, why);
        }
        kind if level == Level::Root => causes.invalid(&path, &kind.into(), "must be object at the root"),
        _ => {}
    }
}

/// Validates the schemas of `apiVersion`, `kind` and `metadata`.
fn meta(properties: Option<&Map<String, Value>>, level: Level, path: &Path<'_>, causes: &mut Causes) {
    let Some(properties) = properties else { return };
    for (name, expected) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        let Some(property) = properties.get(name) else { continue };
        let kind = text(Some(property), "type");
        if kind != expected {
            let path = path.key(name);
            causes.invalid(&path.field("type"), &kind.into(), &format!("must be {expected}"));
        }
    }
    let Some(metadata) = properties.get("metadata").and_then(Value::as_object) else { return };
    let names = metadata.get("properties").and_then(Value::as_object);
    let is_plain =
        metadata.keys().all(|keyword| matches!(keyword.as_str(), "type" | "properties" | "description"))
            && names.into_iter().flatten().all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    if level == Level::Root && !is_plain {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        causes.forbidden(&path.key("metadata"), why);
    }
}

/// Validates `allOf`, `anyOf`, `oneOf` and `not`. `around` is the schema of the same value that defines the types.
fn combined(
    of: &Map<String, Value>,
    around: Option<&Value>,
    around_path: &Path<'_>,
    path: &Path<'_>,
    depth: usize,
    causes: &mut Causes,
) {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let parts = of.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if keyword == "anyOf" && is_int_or_string(parts) {
            continue;
        }
        for (at, part) in parts.iter().enumerate() {
            nested(part, around, around_path, &path.field(keyword).index(at), depth + 1, causes);
        }
    }
    if let Some(not) = of.get("not") {
        nested(not, around, around_path, &path.field("not"), depth + 1, causes);
    }
}

/// True for the `anyOf` of `x-kubernetes-int-or-string`, where types are allowed.
fn is_int_or_string(parts: &[Value]) -> bool {
    let is = |part: &Value, kind: &str| {
        part.as_object().is_some_and(|part| part.len() == 1 && part.get("type").is_some_and(|of| of == kind))
    };
    matches!(parts, [a, b] if is(a, "integer") && is(b, "string"))
}

fn nested(
    schema: &Value,
    around: Option<&Value>,
    around_path: &Path<'_>,
    path: &Path<'_>,
    depth: usize,
    causes: &mut Causes,
) {
    let Some(of) = schema.as_object().filter(|_| depth <= MAX_DEPTH) else { return };
    for (keyword, why) in [
        ("type", "must be empty to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("default", "must be undefined to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("nullable", "must be false to be structural"),
        ("externalDocs", "must be undefined to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ] {
        let is_there =
            of.get(keyword).is_some_and(|value| !value.is_null() && *value != false && *value != "");
        if is_there {
            causes.forbidden(&path.field(keyword), why);
        }
    }
    combined(of, around, around_path, path, depth, causes);
    if let Some(items) = of.get("items").filter(|items| items.is_object()) {
        let (inner, inner_path) = (around.and_then(|around| around.get("items")), around_path.field("items"));
        let path = path.field("items");
        complete(inner, &inner_path, &path, causes);
        nested(items, inner, &inner_path, &path, depth + 1, causes);
    }
    for (name, property) in of.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let room = path.field("properties");
        let path = room.key(name);
        if name == "metadata" {
            causes.forbidden(&path, "must not be specified in a nested context");
        }
        let inner = around.and_then(|around| around.get("properties")?.get(name));
        let around_room = around_path.field("properties");
        let inner_path = around_room.key(name);
        complete(inner, &inner_path, &path, causes);
        nested(property, inner, &inner_path, &path, depth + 1, causes);
    }
}

/// Requires that a field in a nested schema is also defined in the structural schema.
fn complete(inner: Option<&Value>, inner_path: &Path<'_>, path: &Path<'_>, causes: &mut Causes) {
    if inner.is_none() {
        causes.required(inner_path, &format!("because it is defined in {}", super::named(path)));
    }
}
