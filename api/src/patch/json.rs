//! JSON patch (RFC 6902) with limits. As in the stock API server, a `test` for `null` succeeds for a missing value,
//! and an operation without `value` has the value `null`.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use json_patch::jsonptr::Pointer;
use json_patch::{PatchErrorKind, PatchOperation};
use serde::Deserialize;
use serde_json::Value;

use super::{MAX_DEPTH, PatchError, check_depth, fits};

/// Maximum number of operations of a patch, as in the stock API server.
pub const MAX_OPERATIONS: usize = 10_000;

/// Maximum number of bytes that all `copy` operations add, as in the stock API server. Without it, thirty copies
/// can grow one byte to a gigabyte.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Limit for the bytes that all `move` operations carry, because each one is checked for its depth.
const MAX_MOVED_BYTES: usize = 64 * 1024 * 1024;

/// Applies a list of operations to `object`. Either all of them take effect or none.
///
/// # Errors
/// [`PatchError::Malformed`] if the patch is invalid, [`PatchError::TooLarge`] over a limit, and
/// [`PatchError::Unprocessable`] for a failed test or a path that does not exist.
pub fn apply(object: Value, patch: &Value) -> Result<Value, PatchError> {
    check_depth(&object, patch)?;
    if let Some(operations) = patch.as_array().map(Vec::len).filter(|operations| *operations > MAX_OPERATIONS)
    {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {operations}"
        )));
    }
    let operations = with_values(patch);
    let operations = Vec::<PatchOperation>::deserialize(&*operations)
        .map_err(|error| PatchError::Malformed(format!("error decoding patch: {error}")))?;
    let mut patched = object;
    let mut carried = CarriedBytes::default();
    for (index, operation) in operations.iter().enumerate() {
        step(&mut patched, operation, &mut carried).map_err(|what| what.of(index, operation))?;
    }
    if !patched.is_object() {
        return Err(PatchError::Unprocessable(
            "the result of the patch is not an object; patch its fields".to_owned(),
        ));
    }
    Ok(patched)
}

/// Adds the value `null` to operations that need a value and have none. Clients omit empty values.
fn with_values(patch: &Value) -> Cow<'_, Value> {
    let lacks_value = |operation: &Value| {
        operation.get("value").is_none()
            && operation["op"].as_str().is_some_and(|op| matches!(op, "add" | "replace" | "test"))
    };
    if !patch.as_array().is_some_and(|operations| operations.iter().any(lacks_value)) {
        return Cow::Borrowed(patch);
    }
    let mut patch = patch.clone();
    for operation in patch.as_array_mut().into_iter().flatten().filter(|operation| lacks_value(operation)) {
        operation["value"] = Value::Null;
    }
    Cow::Owned(patch)
}

/// Numbers of bytes that the operations have copied and moved so far.
#[derive(Default)]
struct CarriedBytes {
    copied_bytes: usize,
    moved_bytes: usize,
}

/// The error of one operation.
enum Failure {
    TooLarge(String),
    Refused(String),
}

impl Failure {
    fn of(self, index: usize, operation: &PatchOperation) -> PatchError {
        let name = match operation {
            PatchOperation::Add(_) => "add",
            PatchOperation::Remove(_) => "remove",
            PatchOperation::Replace(_) => "replace",
            PatchOperation::Move(_) => "move",
            PatchOperation::Copy(_) => "copy",
            PatchOperation::Test(_) => "test",
        };
        let whole = |what: String| format!("operation {index} ({name} {}): {what}", operation.path());
        match self {
            Self::TooLarge(what) => PatchError::TooLarge(whole(what)),
            Self::Refused(what) => PatchError::Unprocessable(whole(what)),
        }
    }
}

/// Applies one operation.
fn step(patched: &mut Value, operation: &PatchOperation, carried: &mut CarriedBytes) -> Result<(), Failure> {
    match operation {
        PatchOperation::Test(test)
            if test.value.is_null() && patched.pointer(test.path.as_str()).is_none() =>
        {
            return Ok(());
        }
        PatchOperation::Test(_) | PatchOperation::Remove(_) => {}
        PatchOperation::Add(add) => fits_at(&add.value, &add.path)?,
        PatchOperation::Replace(replace) => fits_at(&replace.value, &replace.path)?,
        PatchOperation::Move(carry) => {
            if let Some(value) = patched.pointer(carry.from.as_str()) {
                charge(&mut carried.moved_bytes, value, MAX_MOVED_BYTES, "moves")?;
                fits_at(value, &carry.path)?;
            }
        }
        PatchOperation::Copy(copy) => {
            if let Some(value) = patched.pointer(copy.from.as_str()) {
                charge(&mut carried.copied_bytes, value, MAX_COPIED_BYTES, "copies")?;
                fits_at(value, &copy.path)?;
            }
        }
    }
    json_patch::patch_unsafe(patched, std::slice::from_ref(operation)).map_err(|error| {
        Failure::Refused(match error.kind {
            PatchErrorKind::TestFailed => "test failed: the value differs".to_owned(),
            PatchErrorKind::InvalidPointer => "the path does not exist in this object".to_owned(),
            PatchErrorKind::InvalidFromPointer => "`from` does not exist in this object".to_owned(),
            other => other.to_string(),
        })
    })
}

/// Rejects a value that would nest too deep at `path`.
fn fits_at(value: &Value, path: &Pointer) -> Result<(), Failure> {
    match MAX_DEPTH.checked_sub(path.tokens().count()) {
        Some(left) if fits(value, left) => Ok(()),
        _ => Err(Failure::TooLarge(format!("the object would nest deeper than {MAX_DEPTH}"))),
    }
}

/// Adds the size of a value to `bytes`, and returns an error if the sum exceeds `limit`.
fn charge(bytes: &mut usize, value: &Value, limit: usize, what: &str) -> Result<(), Failure> {
    *bytes = bytes.saturating_add(size_bytes(value));
    if *bytes > limit {
        return Err(Failure::TooLarge(format!("all {what} together carry more than {limit} bytes")));
    }
    Ok(())
}

/// The approximate size of a value in JSON.
fn size_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 3,
        Value::Array(elements) => 2 + elements.iter().map(size_bytes).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + size_bytes(value)).sum::<usize>()
        }
    }
}
