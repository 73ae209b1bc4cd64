//! Sets missing required fields to their zero value, because clients rely on them.

use serde_json::{Map, Value};

use super::type_table::{Struct, all};
use super::types::Kind;

/// Sets the missing required fields of an object of the type `name`, and of all objects in it. Values of the wrong
/// type stay unchanged.
pub(crate) fn require(name: &str, object: &mut Map<String, Value>) {
    if let Some(of) = all().get(name) {
        fields(of, object);
    }
}

/// Does the same as [`require`] for the status of an object of a built-in kind.
pub(crate) fn require_status(object: &mut Map<String, Value>, api_version: &str, kind: &str) {
    let field = all().kind_of(api_version, kind).and_then(|of| of.field("status"));
    if let (Some(field), Some(status)) = (field, object.get_mut("status")) {
        walk(&field.kind, status);
    }
}

fn fields(of: &'static Struct, object: &mut Map<String, Value>) {
    for field in of.fields().iter().filter(|field| field.required) {
        if object.get(field.name).is_none_or(Value::is_null)
            && let Some(zero) = zero(&field.kind)
        {
            object.insert(field.name.to_owned(), zero);
        }
    }
    // Scalars need no lookup.
    for (name, value) in object.iter_mut().filter(|(_, value)| value.is_object() || value.is_array()) {
        if let Some(field) = of.field(name) {
            walk(&field.kind, value);
        }
    }
}

fn walk(kind: &'static Kind, value: &mut Value) {
    match (kind, value) {
        (Kind::Object(name), Value::Object(object)) => require(name, object),
        (Kind::List(of), Value::Array(elements)) => elements.iter_mut().for_each(|element| walk(of, element)),
        (Kind::Map(of), Value::Object(entries)) => entries.values_mut().for_each(|entry| walk(of, entry)),
        _ => {}
    }
}

/// The zero value of a type, or `None` if it has none.
fn zero(kind: &Kind) -> Option<Value> {
    match kind {
        Kind::String | Kind::Bytes => Some("".into()),
        Kind::Bool => Some(false.into()),
        Kind::Int32 | Kind::Int64 | Kind::IntOrString => Some(0.into()),
        Kind::List(_) => Some(Value::Array(Vec::new())),
        Kind::Object(_) | Kind::Map(_) => Some(Value::Object(Map::new())),
        Kind::Double | Kind::Quantity | Kind::Time | Kind::MicroTime | Kind::Any | Kind::OneOf(_) => None,
    }
}
