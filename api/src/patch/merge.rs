//! JSON merge patch (RFC 7386): objects are merged, `null` deletes, other values replace.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::{PatchError, check_depth};

/// Applies a merge patch to `object`.
///
/// # Errors
/// If the patch is not a JSON object.
pub fn apply(mut object: Value, patch: &Value) -> Result<Value, PatchError> {
    check_depth(&object, patch)?;
    let Value::Object(changes) = patch else {
        return Err(PatchError::Malformed("a JSON merge patch must be a JSON object".to_owned()));
    };
    merge(&mut object, changes);
    Ok(object)
}

fn merge(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    fields.retain(|name, _| patch.get(name) != Some(&Value::Null));
    for (name, change) in patch {
        match change {
            Value::Null => {}
            Value::Object(change) => merge(fields.entry(name.as_str()).or_insert(Value::Null), change),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                fields.insert(name.clone(), change.clone());
            }
        }
    }
}
