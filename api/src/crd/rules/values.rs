//! Converts JSON to CEL values according to a schema.

use std::sync::Arc;

use base64::Engine as _;
use cel::{Identity, Key, List, Value};
use jiff::Timestamp;
use serde_json::Value as Json;

use super::types::escaped;
use crate::crd::schema::{Additional, Kind, ListType, Schema};

/// Converts a JSON value to a CEL value of the type that its schema has.
pub(super) fn value_of(schema: &Schema, json: &Json, is_resource: bool) -> Value {
    match (schema.kind, json) {
        (Kind::Number, Json::Number(number)) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the schema has checked that it is whole, and `as` keeps within the range"
        )]
        (Kind::Integer, Json::Number(number)) if number.is_f64() => {
            Value::Int(number.as_f64().unwrap_or_default() as i64)
        }
        (Kind::String, Json::String(text)) => {
            let format = schema.rules.as_deref().and_then(|rules| rules.format.as_deref());
            format.and_then(|format| formatted(format, text)).unwrap_or_else(|| Value::from(text.as_str()))
        }
        (Kind::Array, Json::Array(elements)) => {
            let items = schema.items.as_deref();
            let element = |json: &Json| items.map_or_else(|| Value::from(json), |items| part(items, json));
            let identity = match &schema.list {
                ListType::Atomic => Identity::Place,
                ListType::Set => Identity::Value,
                ListType::Map(keys) => Identity::Fields(keys.iter().map(|key| name(key)).collect()),
            };
            Value::List(Arc::new(List::new(elements.iter().map(element).collect(), identity)))
        }
        (Kind::Object, Json::Object(fields)) => Value::map(fields.iter().filter_map(|(field, json)| {
            let value = match (schema.property(field), &schema.additional) {
                (Some(property), _) => part(property, json),
                (None, Additional::Schema(values)) => {
                    return Some((Key::from(field.as_str()), part(values, json)));
                }
                (None, _) if is_resource && matches!(field.as_str(), "apiVersion" | "kind") => {
                    Value::from(json)
                }
                (None, _) if is_resource && field == "metadata" => names(json),
                (None, _) if schema.preserves => Value::from(json),
                (None, _) => return None,
            };
            let value = if is_resource && field == "metadata" { names(json) } else { value };
            Some((Key::from(&*name(field)), value))
        })),
        (_, json) => Value::from(json),
    }
}

fn part(schema: &Schema, json: &Json) -> Value {
    value_of(schema, json, schema.is_embedded)
}

/// The escaped name of a field. A name that cannot be escaped is returned unchanged, and no expression can access
/// the field.
fn name(field: &str) -> String {
    escaped(field).map_or_else(|| field.to_owned(), |name| name.into_owned())
}

/// Returns `name` and `generateName`, the only metadata fields that expressions can access.
fn names(metadata: &Json) -> Value {
    let fields = ["name", "generateName"].into_iter();
    Value::map(fields.filter_map(|name| Some((Key::from(name), Value::from(metadata.get(name)?)))))
}

/// Converts a string with a format. Returns `None` if it stays a string in CEL.
fn formatted(format: &str, text: &str) -> Option<Value> {
    match format {
        "byte" => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
            Some(Value::Bytes(bytes.into()))
        }
        "duration" => cel::duration(text).ok().map(Value::Duration),
        "date-time" => text.parse().ok().map(Value::Timestamp),
        "date" => format!("{text}T00:00:00Z").parse::<Timestamp>().ok().map(Value::Timestamp),
        _ => None,
    }
}
