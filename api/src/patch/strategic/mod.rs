//! Strategic merge patch: a merge patch that merges lists by key and supports directives.
//!
//! It differs from the stock server where that depends on the order of a hash map or fails with an internal error:
//! deletions from a list come after additions, and a patch that does not fit is a client error. `$patch: merge` is
//! accepted everywhere.

mod directive;
mod list;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::directive::{Directive, Name};
use super::{PatchError, check_depth};
use crate::path::Path;
use crate::shape::{Field, Form, Patch, Shape};

/// Applies a patch to `object`, which has the type `shape`.
///
/// # Errors
/// [`PatchError::Malformed`] for invalid directives, and [`PatchError::Unprocessable`] for elements without their merge
/// key and values of the wrong type.
pub fn apply(object: Value, patch: &Value, shape: Shape<'_>) -> Result<Value, PatchError> {
    check_depth(&object, patch)?;
    let Value::Object(changes) = patch else {
        return Err(PatchError::Malformed("a strategic merge patch must be a JSON object".to_owned()));
    };
    let mut fields = match object {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    merge(&mut fields, changes, shape, &Path::ROOT)?;
    Ok(Value::Object(fields))
}

/// Merges `patch` into `target`.
fn merge(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    shape: Shape<'_>,
    at: &Path<'_>,
) -> Result<(), PatchError> {
    match Directive::of(patch, at)? {
        None | Some(Directive::Merge) => {}
        Some(Directive::Delete) => {
            target.clear();
            return Ok(());
        }
        Some(Directive::Replace) => {
            *target = directive::fresh_fields(patch, at)?;
            return Ok(());
        }
    }
    directive::retain_keys(target, patch, at)?;
    target.retain(|name, _| patch.get(name) != Some(&Value::Null));
    for (name, change) in patch {
        match Name::of(name, at)? {
            Name::Field if change.is_null() => {}
            Name::Field => {
                let order = patch.get(&directive::order_of(name));
                change_field(target, name, change, order, shape.at(name), &at.field(name))?;
            }
            Name::Order(list) if patch.get(list).is_none() => {
                if target.contains_key(list) {
                    let none = Value::Array(Vec::new());
                    change_field(target, list, &none, Some(change), shape.at(list), &at.field(list))?;
                }
            }
            Name::Order(_) | Name::Delete(_) | Name::Directive => {}
        }
    }
    // Deletions come last: an element that is both added and deleted is deleted.
    for (name, values) in patch {
        if let Name::Delete(list) = Name::of(name, at)?
            && let Some(current) = target.get_mut(list)
        {
            list::delete(current, values, shape.at(list).patch, &at.field(list))?;
        }
    }
    Ok(())
}

/// Merges one field. `order` is its `$setElementOrder`.
fn change_field(
    target: &mut Map<String, Value>,
    name: &str,
    change: &Value,
    order: Option<&Value>,
    field: Field<'_>,
    at: &Path<'_>,
) -> Result<(), PatchError> {
    let order = order.map(|order| directive::list(order, at)).transpose()?;
    match (target.get_mut(name), change, field.patch) {
        (
            Some(Value::Object(current)),
            Value::Object(change),
            Patch::Plain | Patch::Merge | Patch::MergeBy(_),
        ) => {
            return merge(current, change, field.shape, at);
        }
        (Some(Value::Array(current)), Value::Array(change), Patch::Merge) => {
            return list::merge_values(current, change, order, at);
        }
        (Some(Value::Array(current)), Value::Array(change), Patch::MergeBy(key)) => {
            return list::merge_objects(current, change, order, key, elements(field.shape), at);
        }
        _ => {}
    }
    if order.is_some() && matches!(field.patch, Patch::Plain | Patch::Replace) {
        return Err(PatchError::Malformed(format!(
            "{}: $setElementOrder is only for lists that are merged, but this list is replaced",
            at.to_owned()
        )));
    }
    if let Some(mut fresh) = directive::fresh(change, at)? {
        if let (Value::Array(elements), Some(order)) = (&mut fresh, order) {
            list::arrange_new(elements, order, field.patch, at)?;
        }
        target.insert(name.to_owned(), fresh);
    }
    Ok(())
}

/// The type of the elements of a list.
fn elements(list: Shape<'_>) -> Shape<'_> {
    match list.form() {
        Form::List { elements, .. } => elements,
        Form::Unknown | Form::Scalar | Form::Struct { .. } | Form::Map { .. } => Shape::UNKNOWN,
    }
}
