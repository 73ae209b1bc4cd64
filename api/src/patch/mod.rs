//! Three ways to change a part of an object: JSON patch, JSON merge patch and strategic merge patch.

pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::Value;
use thiserror::Error;

/// How deep an object and a patch may nest: what the JSON reader takes, so that whatever is stored reads back.
pub const MAX_DEPTH: usize = 127;

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
pub(crate) fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(elements) => depth > 0 && elements.iter().all(|element| fits(element, depth - 1)),
        Value::Object(fields) => depth > 0 && fields.values().all(|field| fits(field, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Refuses what nests too deep to be walked.
fn check_depth(object: &Value, patch: &Value) -> Result<(), PatchError> {
    if fits(object, MAX_DEPTH) && fits(patch, MAX_DEPTH) {
        return Ok(());
    }
    Err(PatchError::TooLarge(format!("the object or its patch nests deeper than {MAX_DEPTH}; flatten it")))
}
