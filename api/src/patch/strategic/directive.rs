//! Directives of a strategic merge patch.

use serde_json::{Map, Value};

use crate::patch::PatchError;
use crate::path::Path;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder";
const DELETE: &str = "$deleteFromPrimitiveList";

/// The value of `$patch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    /// Replace the object by the other fields of the patch.
    Replace,
    /// Delete the object.
    Delete,
    /// Merge; the same as no directive.
    Merge,
}

impl Directive {
    /// The `$patch` directive of an object.
    pub(super) fn of(fields: &Map<String, Value>, at: &Path<'_>) -> Result<Option<Self>, PatchError> {
        match fields.get(PATCH) {
            None => Ok(None),
            Some(Value::String(text)) if text == "replace" => Ok(Some(Self::Replace)),
            Some(Value::String(text)) if text == "delete" => Ok(Some(Self::Delete)),
            Some(Value::String(text)) if text == "merge" => Ok(Some(Self::Merge)),
            Some(_) => Err(malformed(at, "unknown patch type; $patch is replace, delete or merge")),
        }
    }
}

/// A key of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name<'a> {
    /// A field of the object.
    Field,
    /// `$setElementOrder/<list>`.
    Order(&'a str),
    /// `$deleteFromPrimitiveList/<list>`.
    Delete(&'a str),
    /// `$patch` or `$retainKeys`.
    Directive,
}

impl<'a> Name<'a> {
    /// Parses a key.
    pub(super) fn of(key: &'a str, at: &Path<'_>) -> Result<Self, PatchError> {
        if key == PATCH || key == RETAIN_KEYS {
            return Ok(Self::Directive);
        }
        for (prefix, name) in [(ORDER, Self::Order as fn(&'a str) -> Self), (DELETE, Self::Delete)] {
            if let Some(rest) = key.strip_prefix(prefix) {
                return match rest.strip_prefix('/') {
                    Some(list) if !list.is_empty() => Ok(name(list)),
                    _ => Err(malformed(at, &format!("`{key}` names no list; write {prefix}/<list>"))),
                };
            }
        }
        Ok(Self::Field)
    }
}

/// The key that sets the order of `list`.
pub(super) fn order_of(list: &str) -> String {
    format!("{ORDER}/{list}")
}

/// The elements of a directive that must be a list.
pub(super) fn list<'v>(value: &'v Value, at: &Path<'_>) -> Result<&'v [Value], PatchError> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| malformed(at, "a directive for a list must be a list"))
}

/// Applies `$retainKeys`: removes all fields of `target` that it does not list.
pub(super) fn retain_keys(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    at: &Path<'_>,
) -> Result<(), PatchError> {
    let Some(kept) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let kept: std::collections::HashSet<&str> = list(kept, at)?.iter().filter_map(Value::as_str).collect();
    for (name, change) in patch {
        if Name::of(name, at)? == Name::Field && !change.is_null() && !kept.contains(name.as_str()) {
            return Err(malformed(
                at,
                &format!("`{name}` is in the patch but not in its $retainKeys; add it there"),
            ));
        }
    }
    target.retain(|name, _| kept.contains(name.as_str()));
    Ok(())
}

/// Removes directives and `null` from a value that has no counterpart to merge with. `None` if the value is to be
/// deleted.
pub(super) fn fresh(value: &Value, at: &Path<'_>) -> Result<Option<Value>, PatchError> {
    match value {
        Value::Object(fields) if Directive::of(fields, at)? == Some(Directive::Delete) => Ok(None),
        Value::Object(fields) => fresh_fields(fields, at).map(|fields| Some(Value::Object(fields))),
        Value::Array(elements) => {
            let mut kept = Vec::with_capacity(elements.len());
            for (index, element) in elements.iter().enumerate() {
                let at = at.index(index);
                if is_only_directive(element, &at)? {
                    continue;
                }
                kept.extend(fresh(element, &at)?);
            }
            Ok(Some(Value::Array(kept)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(Some(value.clone())),
    }
}

/// [`fresh`] for the fields of an object.
pub(super) fn fresh_fields(
    fields: &Map<String, Value>,
    at: &Path<'_>,
) -> Result<Map<String, Value>, PatchError> {
    let mut kept = Map::new();
    for (name, value) in fields {
        if Name::of(name, at)? == Name::Field
            && !value.is_null()
            && let Some(value) = fresh(value, &at.field(name))?
        {
            kept.insert(name.clone(), value);
        }
    }
    Ok(kept)
}

/// True for a list element that is only a directive.
fn is_only_directive(element: &Value, at: &Path<'_>) -> Result<bool, PatchError> {
    let Value::Object(fields) = element else { return Ok(false) };
    Ok(matches!(Directive::of(fields, at)?, Some(Directive::Replace | Directive::Delete)))
}

/// The error for a patch that is invalid at `at`.
pub(super) fn malformed(at: &Path<'_>, what: &str) -> PatchError {
    PatchError::Malformed(located(at, what))
}

/// The error for a patch that does not fit the object at `at`.
pub(super) fn misfit(at: &Path<'_>, what: &str) -> PatchError {
    PatchError::Unprocessable(located(at, what))
}

fn located(at: &Path<'_>, what: &str) -> String {
    let path = at.to_owned().to_string();
    if path.is_empty() { what.to_owned() } else { format!("{path}: {what}") }
}
