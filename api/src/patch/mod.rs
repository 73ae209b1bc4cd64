//! Patches: JSON patch, JSON merge patch and strategic merge patch.

pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::{Map, Value};
use thiserror::Error;

/// Limit for the nesting of patches, and of objects with managed fields. The field set nests five levels deeper than
/// its object, and both must stay within [`READABLE_DEPTH`].
pub const MAX_DEPTH: usize = 120;

/// The recursion limit of the JSON reader, and so the limit for stored objects.
pub const READABLE_DEPTH: usize = 127;

/// The reasons to reject a patch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    /// The patch is invalid for any object; HTTP 400.
    #[error("{0}")]
    Malformed(String),
    /// The patch exceeds a limit; HTTP 413.
    #[error("{0}")]
    TooLarge(String),
    /// The patch cannot be applied to this object; HTTP 422.
    #[error("{0}")]
    Unprocessable(String),
}

/// True if `value` nests at most `depth` levels. Does not recurse deeper than that.
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

/// Rejects patches and objects that nest too deep.
fn check_depth(object: &Value, patch: &Value) -> Result<(), PatchError> {
    if fits(object, READABLE_DEPTH) && fits(patch, MAX_DEPTH) {
        return Ok(());
    }
    Err(PatchError::TooLarge(format!(
        "the patch nests deeper than {MAX_DEPTH}, or its object does; flatten it"
    )))
}
