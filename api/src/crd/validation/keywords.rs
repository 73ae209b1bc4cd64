//! Validates the keywords of a schema.

use serde_json::{Map, Value};

use super::{Causes, is_set, lists, text};
use crate::crd::schema::{MAX_DEPTH, Pattern};
use crate::path::Path;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Reports unsupported keywords and invalid values at any level of a schema.
pub(super) fn schema(schema: &Value, path: &Path<'_>, depth: usize, causes: &mut Causes) {
    let Some(of) = schema.as_object() else {
        return causes.invalid(path, schema, "must be a schema object");
    };
    if depth > MAX_DEPTH {
        return causes.invalid(path, &"...".into(), &format!("must not nest deeper than {MAX_DEPTH}"));
    }
    for (keyword, why) in [
        ("id", "id is not supported"),
        ("patternProperties", "patternProperties is not supported"),
        ("definitions", "definitions is not supported"),
        ("dependencies", "dependencies is not supported"),
        ("additionalItems", "additionalItems is not supported"),
        ("$ref", "$ref is not supported"),
    ] {
        if of.get(keyword).is_some_and(|value| !is_nothing(value)) {
            causes.forbidden(&path.field(keyword), why);
        }
    }
    if is_set(of, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.forbidden(&path.field("uniqueItems"), why);
    }
    match text(Some(schema), "type") {
        "null" => causes
            .forbidden(&path.field("type"), "type cannot be set to null, use nullable as an alternative"),
        kind if !kind.is_empty() && !TYPES.contains(&kind) => {
            causes.not_supported(&path.field("type"), kind, &TYPES);
        }
        _ => {}
    }
    if of.get("x-kubernetes-preserve-unknown-fields").is_some_and(|flag| *flag == false) {
        let why = "must be true or undefined";
        causes.invalid(&path.field("x-kubernetes-preserve-unknown-fields"), &false.into(), why);
    }
    let pattern = text(Some(schema), "pattern");
    if let Err(error) = Pattern::read(pattern) {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        causes.invalid(&path.field("pattern"), &pattern.into(), &why);
    }
    lists::lists(of, path, causes);
    if of.get("items").is_some_and(Value::is_array) {
        causes.forbidden(&path.field("items"), "items must be a schema object and not an array");
    }
    if of.contains_key("properties") && has_additional(of) {
        let why = "additionalProperties and properties are mutual exclusive";
        causes.forbidden(&path.field("additionalProperties"), why);
    }
    below(of, path, &mut |part, path| self::schema(part, path, depth + 1, causes));
}

/// True for properties that exclude `additionalProperties`.
fn has_additional(of: &Map<String, Value>) -> bool {
    let has_properties = of["properties"].as_object().is_some_and(|properties| !properties.is_empty());
    has_properties && of.get("additionalProperties").is_some_and(|more| *more != true && !more.is_null())
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    }
}

/// Calls `act` for each direct subschema with its path.
pub(super) fn below(of: &Map<String, Value>, path: &Path<'_>, act: &mut dyn FnMut(&Value, &Path<'_>)) {
    for keyword in ["items", "additionalProperties", "not"] {
        if let Some(part) = of.get(keyword).filter(|part| part.is_object()) {
            act(part, &path.field(keyword));
        }
    }
    for (name, part) in of.get("properties").and_then(Value::as_object).into_iter().flatten() {
        act(part, &path.field("properties").key(name));
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let parts = of.get(keyword).and_then(Value::as_array).into_iter().flatten();
        for (at, part) in parts.enumerate() {
            act(part, &path.field(keyword).index(at));
        }
    }
}
