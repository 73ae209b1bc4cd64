//! The initial status of a new object: only required fields, with zero values.

use serde_json::{Map, Value};

use super::type_table::{Struct, all};
use super::types::Kind;

/// The initial status of a new object of a built-in kind, or `None` for kinds without a status. Some clients access
/// the status without a check for null.
pub fn initial_status(api_version: &str, kind: &str) -> Option<Value> {
    let field = all().kind_of(api_version, kind)?.field("status")?;
    match field.kind {
        Kind::Object(name) if !field.pointer => all().get(name).map(zero),
        _ => None,
    }
}

/// Returns an object with zero values for its required fields.
fn zero(of: &Struct) -> Value {
    let required = of.fields().iter().filter(|field| field.required);
    let fields = required.filter_map(|field| Some((field.name.to_owned(), zero_of(&field.kind)?)));
    Value::Object(fields.collect())
}

/// The zero value of a type, or `None` if it has none.
pub(super) fn zero_of(kind: &Kind) -> Option<Value> {
    match kind {
        Kind::String | Kind::Bytes => Some("".into()),
        Kind::Bool => Some(false.into()),
        Kind::Int32 | Kind::Int64 | Kind::Double | Kind::IntOrString => Some(0.into()),
        Kind::Quantity => Some("0".into()),
        Kind::List(_) => Some(Value::Array(Vec::new())),
        Kind::Map(_) => Some(Value::Object(Map::new())),
        Kind::Object(name) => all().get(name).map(zero),
        Kind::Time | Kind::MicroTime | Kind::Any | Kind::OneOf(_) => None,
    }
}

#[cfg(test)]
mod tests;
