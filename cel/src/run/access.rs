//! Field selection and indexing.

use std::sync::Arc;

use crate::error::Error;
use crate::value::{Key, Value};

/// Evaluates `of.field`. The result is an optional if `optional` is set or `of` is an optional.
pub(super) fn select(of: &Value, field: &Arc<str>, optional: bool) -> Result<Value, Error> {
    lookup(of, optional, || Error::no_such_key(field), |of| get(of, field))
}

/// Evaluates `of[index]`.
pub(super) fn index(of: &Value, index: &Value, optional: bool) -> Result<Value, Error> {
    let missing = || match index.text() {
        Ok(text) if matches!(of, Value::List(_)) => Error::failed(format!("index out of bounds: {text}")),
        Ok(text) => Error::no_such_key(text),
        Err(_) => Error::no_such_key(index.type_name()),
    };
    lookup(of, optional, missing, |of| match of {
        Value::List(list) => {
            let at = match Key::of(index)? {
                Key::Int(at) => usize::try_from(at).ok(),
                Key::Uint(at) => usize::try_from(at).ok(),
                Key::Bool(_) | Key::String(_) => return Err(Error::NoSuchOverload(String::new())),
            };
            Ok(at.and_then(|at| list.items.get(at)).cloned())
        }
        Value::Map(map) => Ok(map.get(&Key::of(index)?).cloned()),
        _ => Err(Error::NoSuchOverload(String::new())),
    })
}

/// Evaluates `has(of.field)`.
pub(super) fn has(of: &Value, field: &Arc<str>) -> Result<bool, Error> {
    match of {
        Value::Optional(None) => Ok(false),
        Value::Optional(Some(of)) => has(of, field),
        Value::Map(map) => Ok(map.field(field).is_some()),
        // A field that exists but fails to evaluate counts as present.
        Value::Opaque(of) => Ok(of.field(field).is_some()),
        _ => Err(Error::NoSuchOverload(String::new())),
    }
}

fn get(of: &Value, field: &Arc<str>) -> Result<Option<Value>, Error> {
    match of {
        Value::Map(map) => Ok(map.field(field).cloned()),
        Value::Opaque(of) => of.field(field).transpose(),
        _ => Err(Error::NoSuchOverload(String::new())),
    }
}

fn lookup(
    of: &Value,
    optional: bool,
    missing: impl Fn() -> Error,
    get: impl Fn(&Value) -> Result<Option<Value>, Error>,
) -> Result<Value, Error> {
    let found = match of {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(of)) => return lookup(of, true, missing, get),
        of => get(of)?,
    };
    match found {
        found @ Some(Value::Optional(_)) if optional => Ok(found.unwrap_or(Value::Optional(None))),
        found if optional => Ok(Value::Optional(found.map(Arc::new))),
        found => found.ok_or_else(missing),
    }
}
