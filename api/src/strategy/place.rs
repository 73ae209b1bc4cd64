//! A place in an object: the value there, if any, and the path that messages name.

use serde_json::Value;

use super::Json;
use crate::path::Path;

static NOTHING: Value = Value::Null;

/// What stands somewhere in an object. Absence is a place, too: its value is null.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'v, 'p> {
    value: &'v Value,
    /// The fields, when the value has fields; the root has no value of its own.
    fields: Option<&'v Json>,
    path: Path<'p>,
}

impl<'v> Place<'v, 'static> {
    /// The object itself.
    pub fn root(object: &'v Json) -> Self {
        Self { value: &NOTHING, fields: Some(object), path: Path::ROOT }
    }
}

impl<'v, 'p> Place<'v, 'p> {
    fn of<'s>(value: &'v Value, path: Path<'s>) -> Place<'v, 's> {
        Place { value, fields: value.as_object(), path }
    }

    /// What the field leads to; several steps are written with dots: `strategy.rollingUpdate`.
    pub fn at<'s>(&'s self, dotted: &'s str) -> Place<'v, 's> {
        let mut fields = self.fields;
        let mut value = &NOTHING;
        for name in dotted.split('.') {
            value = fields.and_then(|fields| fields.get(name)).unwrap_or(&NOTHING);
            fields = value.as_object();
        }
        Self::of(value, self.path.field(dotted))
    }

    /// What the key of a map leads to.
    pub fn key<'s>(&'s self, key: &'s str) -> Place<'v, 's> {
        let value = self.fields.and_then(|fields| fields.get(key)).unwrap_or(&NOTHING);
        Self::of(value, self.path.key(key))
    }

    /// The elements of a list.
    pub fn items<'s>(&'s self) -> impl Iterator<Item = Place<'v, 's>> {
        let elements = self.value.as_array().map(Vec::as_slice).unwrap_or_default();
        elements.iter().enumerate().map(|(at, element)| Self::of(element, self.path.index(at)))
    }

    /// The entries of a map.
    pub fn entries<'s>(&'s self) -> impl Iterator<Item = (&'v str, Place<'v, 's>)>
    where
        'v: 's,
    {
        let fields = self.fields.into_iter().flatten();
        fields.map(|(key, value)| (key.as_str(), Self::of(value, self.path.key(key))))
    }

    /// The value; null when there is none.
    pub fn value(&self) -> &'v Value {
        self.value
    }

    /// The fields, when it has any.
    pub fn fields(&self) -> Option<&'v Json> {
        self.fields
    }

    /// The text; empty when there is none.
    pub fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// The whole number.
    pub fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// True when it says `true`.
    pub fn is_true(&self) -> bool {
        self.value.as_bool() == Some(true)
    }

    /// How many elements a list has.
    pub fn len(&self) -> usize {
        self.value.as_array().map_or(0, Vec::len)
    }

    /// True when nothing stands there.
    pub fn is_absent(&self) -> bool {
        self.value.is_null() && self.fields.is_none()
    }

    /// True when nothing stands there, or a text, list or map without content.
    pub fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => self.fields.is_none(),
            Value::String(text) => text.is_empty(),
            Value::Array(elements) => elements.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// The path as messages name it.
    pub fn path(&self) -> String {
        self.path.to_owned().to_string()
    }
}
