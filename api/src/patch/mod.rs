//! Three ways to change a part of an object: JSON patch, JSON merge patch and strategic merge patch.

pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::{Map, Value};
use thiserror::Error;

/// How deep a patch may nest, and an object whose fields have owners: their record nests five deeper than the object, and
/// the whole has to be [`READABLE_DEPTH`].
pub const MAX_DEPTH: usize = 120;

/// How deep the JSON reader goes, so how deep a stored object nests at most.
pub const READABLE_DEPTH: usize = 127;

/// Why a patch was not made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    /// The patch is no patch, whatever the object; HTTP 400.
    #[error("{0}")]
    Malformed(String),
    /// Carrying the patch out would take too much; HTTP 413.
    #[error("{0}")]
    TooLarge(String),
    /// The patch does not fit this object; HTTP 422.
    #[error("{0}")]
    Unprocessable(String),
}

/// True when `value` nests `depth` deep at most. Looks no deeper than that.
pub fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(elements) => depth > 0 && elements.iter().all(|element| fits(element, depth - 1)),
        Value::Object(fields) => depth > 0 && fields.values().all(|field| fits(field, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// [`fits`] for the fields of an object.
pub fn fits_each(object: &Map<String, Value>, depth: usize) -> bool {
    depth > 0 && object.values().all(|field| fits(field, depth - 1))
}

/// Refuses what nests too deep to be walked.
fn check_depth(object: &Value, patch: &Value) -> Result<(), PatchError> {
    if fits(object, READABLE_DEPTH) && fits(patch, MAX_DEPTH) {
        return Ok(());
    }
    Err(PatchError::TooLarge(format!(
        "the patch nests deeper than {MAX_DEPTH}, or its object does; flatten it"
    )))
}
