//! A value in an object together with its field path.

use serde_json::Value;

use super::Json;
use crate::path::Path;

static NOTHING: Value = Value::Null;

/// The value at a path. If the field is missing, the value is null.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldValue<'v, 'p> {
    value: &'v Value,
    /// The fields of an object. The root has only fields and no value.
    fields: Option<&'v Json>,
    path: Path<'p>,
}

impl<'v> FieldValue<'v, 'static> {
    /// The object itself.
    pub fn root(object: &'v Json) -> Self {
        Self { value: &NOTHING, fields: Some(object), path: Path::ROOT }
    }
}

impl<'v, 'p> FieldValue<'v, 'p> {
    fn of<'s>(value: &'v Value, path: Path<'s>) -> FieldValue<'v, 's> {
        FieldValue { value, fields: value.as_object(), path }
    }

    /// The value at a dotted path, such as `strategy.rollingUpdate`.
    pub fn at<'s>(&'s self, dotted: &'s str) -> FieldValue<'v, 's> {
        let mut fields = self.fields;
        let mut value = &NOTHING;
        for name in dotted.split('.') {
            value = fields.and_then(|fields| fields.get(name)).unwrap_or(&NOTHING);
            fields = value.as_object();
        }
        Self::of(value, self.path.field(dotted))
    }

    /// The value at a key of a map.
    pub fn key<'s>(&'s self, key: &'s str) -> FieldValue<'v, 's> {
        let value = self.fields.and_then(|fields| fields.get(key)).unwrap_or(&NOTHING);
        Self::of(value, self.path.key(key))
    }

    /// The elements of a list.
    pub fn items<'s>(&'s self) -> impl Iterator<Item = FieldValue<'v, 's>> {
        let elements = self.value.as_array().map(Vec::as_slice).unwrap_or_default();
        elements.iter().enumerate().map(|(at, element)| Self::of(element, self.path.index(at)))
    }

    /// The entries of a map.
    pub fn entries<'s>(&'s self) -> impl Iterator<Item = (&'v str, FieldValue<'v, 's>)>
    where
        'v: 's,
    {
        let fields = self.fields.into_iter().flatten();
        fields.map(|(key, value)| (key.as_str(), Self::of(value, self.path.key(key))))
    }

    /// The value, or null if it is missing.
    pub fn value(&self) -> &'v Value {
        self.value
    }

    /// The fields, if the value is an object.
    pub fn fields(&self) -> Option<&'v Json> {
        self.fields
    }

    /// The string; empty if it is not a string.
    pub fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// The integer, if it is one.
    pub fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// True if the value is `true`.
    pub fn is_true(&self) -> bool {
        self.value.as_bool() == Some(true)
    }

    /// The number of list elements, or 0 if it is not a list.
    pub fn len(&self) -> usize {
        self.value.as_array().map_or(0, Vec::len)
    }

    /// True if the value is missing or null.
    pub fn is_absent(&self) -> bool {
        self.value.is_null() && self.fields.is_none()
    }

    /// True if the value is missing, or an empty string, list or map.
    pub fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => self.fields.is_none(),
            Value::String(text) => text.is_empty(),
            Value::Array(elements) => elements.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// The field path for messages.
    pub fn path(&self) -> String {
        self.path.to_owned().to_string()
    }
}
