//! What a value is made of, as far as owners can tell its parts apart.

use serde_json::{Map, Value};

use super::set::Element;
use crate::shape::{Form, List, Shape};

/// What a value is made of.
pub(super) enum Parts<'v, 's> {
    /// One thing with one owner: no parts, or atomic, or not what its type says.
    Leaf,
    /// `null` where there could be parts.
    Nothing,
    /// An object whose fields have their own owners.
    Fields(&'v Map<String, Value>),
    /// A list whose elements have their own owners: what each is called, and what they are.
    Elements(&'v [Value], Vec<Element>, Shape<'s>),
}

impl<'v, 's> Parts<'v, 's> {
    /// The parts of a value of the type `shape`.
    pub(super) fn of(value: &'v Value, shape: Shape<'s>) -> Self {
        match (shape.form(), value) {
            (
                Form::Unknown | Form::Struct { atomic: false } | Form::Map { atomic: false, .. },
                Value::Object(fields),
            ) => Self::Fields(fields),
            (Form::List { elements, list }, Value::Array(values)) => match names(values, list, elements) {
                Ok(Some(names)) => Self::Elements(values, names, elements),
                // A list that breaks its own rules can only be owned as a whole.
                Ok(None) | Err(_) => Self::Leaf,
            },
            (
                Form::Unknown
                | Form::Struct { atomic: false }
                | Form::Map { atomic: false, .. }
                | Form::List { list: List::Set | List::Map(_), .. },
                Value::Null,
            ) => Self::Nothing,
            _ => Self::Leaf,
        }
    }

    /// True when there are no parts.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Leaf | Self::Nothing => true,
            Self::Fields(fields) => fields.is_empty(),
            Self::Elements(values, ..) => values.is_empty(),
        }
    }
}

/// What the elements of a list are called; `None` when they have no names.
///
/// # Errors
/// Which element has no name, and why.
pub(super) fn names(values: &[Value], list: List<'_>, of: Shape<'_>) -> Result<Option<Vec<Element>>, String> {
    let name = |(index, value): (usize, &Value)| match list {
        List::Map(keys) => key(value, keys, of).map_err(|why| format!("element {index}: {why}")),
        List::Set | List::Atomic => match value {
            Value::String(_) | Value::Number(_) | Value::Bool(_) => Ok(Element::Value(value.to_string())),
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

fn key(value: &Value, keys: &[String], of: Shape<'_>) -> Result<Element, String> {
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
    Ok(Element::Key(named))
}
