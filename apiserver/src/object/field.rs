//! Field labels of field selectors, and how their values are read from objects.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

/// A static or owned string.
pub type Text = Cow<'static, str>;

/// Field labels of a kind, beyond `metadata.name` and `metadata.namespace`.
pub type Fields = Arc<[Field]>;

/// A field label and the source of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The label in selectors, such as `status.phase`.
    pub label: Text,
    /// Source of the value.
    pub source: Source,
}

/// Source of a field label's value. An absent value is the empty string unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The label is the path of the field.
    Path,
    /// The value of the field at the path. If the field is absent, the given string (`false`, `0`).
    Or(&'static str, &'static str),
    /// The first of these fields that is not empty.
    FirstOf(&'static [&'static str]),
    /// The value of another label of the stored kind.
    Alias(&'static str),
}

/// The field by which kubelets select the pods of their node.
pub const NODE_NAME: &str = "spec.nodeName";

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldValue {
    /// Field path, as in selectors.
    pub path: String,
    /// Value; empty if the field is not set.
    pub value: String,
}

impl Field {
    /// Creates a label of a built-in kind.
    pub const fn new(label: &'static str, source: Source) -> Self {
        Self { label: Cow::Borrowed(label), source }
    }

    /// Creates a label that is the path of a field.
    pub fn path(label: impl Into<Text>) -> Self {
        Self { label: label.into(), source: Source::Path }
    }

    /// The label under which the value is indexed.
    pub fn stored_label(&self) -> &str {
        match self.source {
            Source::Alias(label) => label,
            Source::Path | Source::Or(..) | Source::FirstOf(_) => &self.label,
        }
    }

    /// The value to compare; empty for an alias.
    pub(crate) fn value_of(&self, object: &Map<String, Value>) -> Box<str> {
        match self.source {
            Source::Path => value_at(object, &self.label).unwrap_or_default(),
            Source::Or(path, absent) => value_at(object, path).unwrap_or_else(|| absent.into()),
            Source::FirstOf(paths) => {
                let mut values = paths.iter().filter_map(|path| value_at(object, path));
                values.find(|value| !value.is_empty()).unwrap_or_default()
            }
            Source::Alias(_) => Box::default(),
        }
    }
}

/// Returns a scalar field as text, or `None` if it is absent or not a scalar.
fn value_at(object: &Map<String, Value>, path: &str) -> Option<Box<str>> {
    let mut steps = path.split('.');
    let first = step(object, steps.next()?)?;
    match steps.try_fold(first, |value, name| step(value.as_object()?, name))? {
        Value::String(text) => Some(text.as_str().into()),
        value @ (Value::Bool(_) | Value::Number(_)) => Some(value.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Follows one path segment: a field, or with the suffix `[0]` the first element of a list.
fn step<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    match name.strip_suffix("[0]") {
        Some(list) => fields.get(list)?.as_array()?.first(),
        None => fields.get(name),
    }
}

#[cfg(test)]
mod tests {
    //! Tests of values of field labels.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn field_values_equal_those_of_the_typed_object() {
        let object =
            json!({"spec": {"host": true, "names": [{"name": "a"}, {"name": "b"}]}, "empty": "", "count": 3});
        let object = object.as_object().unwrap();
        for (field, expected) in [
            (Field::path("spec.host"), "true"),
            (Field::path("spec.none"), ""),
            (Field::path("spec.names"), ""),
            (Field::path("spec.names[0].name"), "a"),
            (Field::path("spec.none[0].name"), ""),
            (Field::new("host", Source::Or("spec.host", "false")), "true"),
            (Field::new("other", Source::Or("spec.other", "false")), "false"),
            (Field::new("count", Source::Or("count", "0")), "3"),
            (Field::new("first", Source::FirstOf(&["empty", "none.at.all", "spec.names[0].name"])), "a"),
            (Field::new("never", Source::FirstOf(&[])), ""),
        ] {
            assert_eq!(&*field.value_of(object), expected, "{field:?}");
        }
    }
}
