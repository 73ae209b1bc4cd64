//! Validates one version of a definition.

use serde_json::Value;

use super::keywords::below;
use super::{Causes, keywords, list, names, rules, structure, text};
use crate::crd::schema::Schema;
use crate::path::Path;

/// Limit for selectable fields.
const MAX_SELECTABLE: usize = 8;

pub(super) fn version(version: &Value, path: &Path<'_>, causes: &mut Causes) {
    names::label(text(Some(version), "name"), &path.field("name"), causes);
    let warning = version.get("deprecationWarning").and_then(Value::as_str);
    if let Some(warning) = warning {
        let path = path.field("deprecationWarning");
        if version.get("deprecated").is_none_or(|deprecated| *deprecated != true) {
            causes.invalid(&path, &warning.into(), "can only be set for deprecated versions");
        }
        if warning.is_empty() || warning.len() > 256 {
            causes.invalid(&path, &warning.into(), "must be between 1 and 256 characters");
        }
    }
    let outer = path.field("schema");
    let schema_path = outer.field("openAPIV3Schema");
    match version.pointer("/schema/openAPIV3Schema") {
        Some(schema @ Value::Object(_)) => {
            let before = causes.0.len();
            keywords::schema(schema, &schema_path, 0, causes);
            structure::structural(schema, &schema_path, causes);
            // Defaults and rules can only be checked against a valid schema.
            if causes.0.len() == before {
                defaults(schema, &schema_path, causes);
                rules::rules(schema, &schema_path, causes);
            }
        }
        Some(_) | None => causes.required(&schema_path, "schemas are required"),
    }
    subresources(version.get("subresources"), &path.field("subresources"), causes);
    columns(version, &path.field("additionalPrinterColumns"), causes);
    let selectable = list(Some(version), "selectableFields");
    let path = path.field("selectableFields");
    if selectable.len() > MAX_SELECTABLE {
        causes.invalid(&path, &selectable.len().into(), &format!("may not be more than {MAX_SELECTABLE}"));
    }
    for (at, field) in selectable.iter().enumerate() {
        json_path(text(Some(field), "jsonPath"), &path.index(at).field("jsonPath"), &[], causes);
    }
}

fn subresources(subresources: Option<&Value>, path: &Path<'_>, causes: &mut Causes) {
    let Some(scale) = subresources.and_then(|parts| parts.get("scale")).filter(|scale| !scale.is_null())
    else {
        return;
    };
    let path = path.field("scale");
    json_path(text(Some(scale), "specReplicasPath"), &path.field("specReplicasPath"), &[".spec."], causes);
    json_path(
        text(Some(scale), "statusReplicasPath"),
        &path.field("statusReplicasPath"),
        &[".status."],
        causes,
    );
    let selector = text(Some(scale), "labelSelectorPath");
    if !selector.is_empty() {
        json_path(selector, &path.field("labelSelectorPath"), &[".spec.", ".status."], causes);
    }
}

/// Validates a simple JSONPath such as `.spec.replicas`. Unless `rooms` is empty, the path must begin with one of
/// its prefixes.
fn json_path(json_path: &str, path: &Path<'_>, rooms: &[&str], causes: &mut Causes) {
    if json_path.is_empty() {
        return causes.required(path, "");
    }
    let fields = json_path.strip_prefix('.').unwrap_or_default();
    let is_field = |field: &str| {
        !field.is_empty()
            && field.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    if !fields.split('.').all(is_field) {
        let why = "must be a simple json path starting with .";
        causes.invalid(path, &json_path.into(), why);
    } else if !rooms.is_empty() && !rooms.iter().any(|room| json_path.starts_with(room)) {
        let rooms: Vec<&str> = rooms.iter().map(|room| room.trim_end_matches('.')).collect();
        let why = format!("should be a json path under {}", rooms.join(" or "));
        causes.invalid(path, &json_path.into(), &why);
    }
}

fn columns(version: &Value, path: &Path<'_>, causes: &mut Causes) {
    const KINDS: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    for (at, column) in list(Some(version), "additionalPrinterColumns").iter().enumerate() {
        let path = path.index(at);
        let of = |field| text(Some(column), field);
        if of("name").is_empty() {
            causes.required(&path.field("name"), "");
        }
        match of("type") {
            "" => causes.required(&path.field("type"), "must be one of boolean,date,integer,number,string"),
            kind if !KINDS.contains(&kind) => causes.not_supported(&path.field("type"), kind, &KINDS),
            _ => {}
        }
        let format = of("format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            causes.not_supported(&path.field("format"), format, &FORMATS);
        }
        let json_path = of("jsonPath");
        if json_path.is_empty() {
            causes.required(&path.field("jsonPath"), "");
        } else if !json_path.starts_with('.') {
            causes.invalid(
                &path.field("jsonPath"),
                &json_path.into(),
                "must be a simple json path starting with .",
            );
        }
    }
}

/// Validates the defaults of a schema against the schema.
fn defaults(schema: &Value, path: &Path<'_>, causes: &mut Causes) {
    let Some(of) = schema.as_object() else { return };
    if let Some(default) = of.get("default").filter(|default| !default.is_null()) {
        fits(schema, default, &path.field("default"), causes);
    }
    below(of, path, &mut |part, path| defaults(part, path, causes));
}

fn fits(schema: &Value, default: &Value, path: &Path<'_>, causes: &mut Causes) {
    let schema = Schema::read_part(schema);
    let mut value = default.clone();
    if let Err(too_large) = schema.fill(&mut value) {
        return causes.invalid(path, &Value::Null, &too_large.to_string());
    }
    if !schema.prune(&mut value).is_empty() {
        return causes.invalid(path, default, "must not have unknown fields");
    }
    for cause in schema.check_value(&value, path) {
        causes.add(cause);
    }
}
