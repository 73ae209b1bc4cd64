//! Splits a value into the parts that can have different owners.

use serde_json::{Map, Value};

use super::field_set::PathElement;
use crate::shape::{Form, List, Shape};

/// A value split into its parts.
pub(super) enum Typed<'v, 's> {
    /// A value with one owner: a scalar, an atomic value, or a value that does not match its type.
    Leaf,
    /// `null` in place of a list, map or struct.
    Null,
    /// An object whose fields have separate owners.
    Fields(&'v Map<String, Value>),
    /// A list whose elements have separate owners: the elements, their path elements, and their type.
    Elements(&'v [Value], Vec<PathElement>, Shape<'s>),
}

impl<'v, 's> Typed<'v, 's> {
    /// Splits a value of the type `shape`.
    pub(super) fn of(value: &'v Value, shape: Shape<'s>) -> Self {
        match (shape.form(), value) {
            (
                Form::Unknown | Form::Struct { atomic: false } | Form::Map { atomic: false, .. },
                Value::Object(fields),
            ) => Self::Fields(fields),
            (Form::List { elements, list }, Value::Array(values)) => match names(values, list, elements) {
                Ok(Some(names)) => Self::Elements(values, names, elements),
                // A list that violates its list type can only be owned as a whole.
                Ok(None) | Err(_) => Self::Leaf,
            },
            (
                Form::Unknown
                | Form::Struct { atomic: false }
                | Form::Map { atomic: false, .. }
                | Form::List { list: List::Set | List::Map(_), .. },
                Value::Null,
            ) => Self::Null,
            _ => Self::Leaf,
        }
    }

    /// True if the value has no parts.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Leaf | Self::Null => true,
            Self::Fields(fields) => fields.is_empty(),
            Self::Elements(values, ..) => values.is_empty(),
        }
    }
}

/// The path elements of a list, or `None` for an atomic list.
///
/// # Errors
/// If an element lacks a key or cannot be in a set. The error names the first one.
pub(super) fn names(
    values: &[Value],
    list: List<'_>,
    of: Shape<'_>,
) -> Result<Option<Vec<PathElement>>, String> {
    let name = |(index, value): (usize, &Value)| match list {
        List::Map(keys) => key(value, keys, of).map_err(|why| format!("element {index}: {why}")),
        List::Set | List::Atomic => match value {
            Value::String(_) | Value::Number(_) | Value::Bool(_) => Ok(PathElement::Value(value.to_string())),
            Value::Null | Value::Array(_) | Value::Object(_) => {
                Err(format!("element {index}: a set has strings, numbers and booleans only"))
            }
        },
    };
    match list {
        List::Atomic => Ok(None),
        List::Set | List::Map(_) => values.iter().enumerate().map(name).collect::<Result<_, _>>().map(Some),
    }
}

fn key(value: &Value, keys: &[String], of: Shape<'_>) -> Result<PathElement, String> {
    let Value::Object(fields) = value else {
        return Err("associative list with keys may not have non-map elements".to_owned());
    };
    let mut named = Vec::with_capacity(keys.len());
    for key in keys {
        let Some(value) = fields.get(key).or_else(|| of.at(key).default) else {
            return Err(format!(
                "associative list with keys has an element that omits key field \"{key}\" (and doesn't have default value)"
            ));
        };
        named.push((key.clone(), value.to_string()));
    }
    named.sort();
    Ok(PathElement::Key(named))
}
