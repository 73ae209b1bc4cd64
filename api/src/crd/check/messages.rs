//! Error messages in the exact words of the stock API server, because clients show and parse them.

use serde_json::Value;

use super::plain;
use crate::strategy::{Cause, Reason};

/// The schema type of a value.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The error for a value that violates a rule. `what` follows the field name in the message.
pub(super) fn invalid(field: &str, value: &Value, what: &str) -> Cause {
    Cause::invalid(field, value, &format!("{field} in body {what}"))
}

/// The error for a value of another type than `expected`.
pub(super) fn mistyped(field: &str, expected: &str, found: &str) -> Cause {
    let message =
        format!("Invalid value: \"{found}\": {field} in body must be of type {expected}: \"{found}\"");
    plain(field, Reason::TypeInvalid, message)
}

/// The error for too many elements or properties.
pub(super) fn too_many(field: &str, count: u64, most: u64) -> Cause {
    let items = if most == 1 { "item" } else { "items" };
    plain(field, Reason::TooMany, format!("Too many: {count}: must have at most {most} {items}"))
}

/// The error for a string that is too long.
pub(super) fn too_long(field: &str, most: u64) -> Cause {
    let bytes = if most == 1 { "byte" } else { "bytes" };
    plain(field, Reason::TooLong, format!("Too long: may not be more than {most} {bytes}"))
}

/// The error for a value that is not in the `enum`.
pub(super) fn not_supported(field: &str, value: &Value, known: &[Value]) -> Cause {
    let known: Vec<String> = known
        .iter()
        .map(|known| known.as_str().map_or_else(|| format!("\"{known}\""), |known| format!("\"{known}\"")))
        .collect();
    let message = format!("Unsupported value: {value}: supported values: {}", known.join(", "));
    plain(field, Reason::NotSupported, message)
}

/// The error for a string that does not match the format `expected`.
pub(super) fn mistyped_value(field: &str, expected: &str, found: &str) -> Cause {
    Cause::invalid(
        field,
        Value::from(found),
        &format!("{field} in body must be of type {expected}: {}", Value::from(found)),
    )
}
