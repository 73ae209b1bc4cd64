//! Decodes the messages of an object by the type table.

use serde_json::{Map, Value};

use super::envelope::MAGIC;
use super::error::Error;
use super::scalar;
use super::wire::{Reader, Wire, WireError};
use crate::path::Path;
use crate::schema::{Field, Kind, Numbered, Struct, all};

/// Limit for nested messages. A CustomResourceDefinition with twenty levels needs fewer.
pub(super) const MAX_DEPTH: usize = 64;

/// Limit for the values of one body. An empty message takes two bytes, but about a hundred in memory. The largest
/// object that etcd stores has at most about 150,000 values.
pub(super) const MAX_VALUES: usize = 200_000;

/// The remaining limits of one body.
#[derive(Debug)]
pub(super) struct Decoder {
    values_left: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { values_left: MAX_VALUES }
    }
}

impl Decoder {
    /// Decodes a message of a type and merges its fields into `object`.
    pub(super) fn message(
        &mut self,
        of: &Struct,
        bytes: &[u8],
        object: &mut Map<String, Value>,
        path: &Path<'_>,
        depth: usize,
    ) -> Result<(), Error> {
        self.fields(of, &[], bytes, object, path, depth)
    }

    /// Decodes a message, or a nested message whose fields JSON inlines.
    fn fields(
        &mut self,
        of: &Struct,
        within: &[u32],
        bytes: &[u8],
        object: &mut Map<String, Value>,
        path: &Path<'_>,
        depth: usize,
    ) -> Result<(), Error> {
        if depth >= MAX_DEPTH {
            return Err(Error::TooDeep { path: path.to_owned() });
        }
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.field().map_err(|why| broken(why, path))? {
            match of.numbered(within, number) {
                None => {}
                Some(Numbered::Nested(within)) => {
                    let bytes = scalar::bytes(wire, path)?;
                    self.fields(of, within, bytes, object, path, depth + 1)?;
                }
                Some(Numbered::Field(field)) => {
                    self.field(field, wire, object, &path.field(field.name), depth)?;
                }
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &Field,
        wire: Wire<'_>,
        object: &mut Map<String, Value>,
        path: &Path<'_>,
        depth: usize,
    ) -> Result<(), Error> {
        match &field.kind {
            Kind::List(of) => {
                let list = slot(object, field.name, Value::Array(Vec::new()));
                let Value::Array(list) = list else { return Ok(()) };
                self.elements(of, wire, list, path, depth)
            }
            Kind::Map(of) => {
                let map = slot(object, field.name, Value::Object(Map::new()));
                let Value::Object(map) = map else { return Ok(()) };
                self.entry(of, wire, map, path, depth)
            }
            Kind::Object(name) => {
                self.count(path)?;
                let bytes = scalar::bytes(wire, path)?;
                let map = slot(object, field.name, Value::Object(Map::new()));
                match (all().get(name), map) {
                    (Some(of), Value::Object(map)) => self.message(of, bytes, map, path, depth + 1),
                    _ => Ok(()),
                }
            }
            kind => {
                let value = self.value(kind, wire, path, depth)?;
                if value.is_null() || is_omitted(field, &value) {
                    object.remove(field.name);
                } else {
                    object.insert(field.name.to_owned(), value);
                }
                Ok(())
            }
        }
    }

    /// Adds an element to a list, or all elements of a packed field.
    fn elements(
        &mut self,
        of: &Kind,
        wire: Wire<'_>,
        list: &mut Vec<Value>,
        path: &Path<'_>,
        depth: usize,
    ) -> Result<(), Error> {
        if let (Kind::Int32 | Kind::Int64 | Kind::Bool | Kind::Double, Wire::Bytes(numbers)) = (of, wire) {
            let mut reader = Reader::new(numbers);
            while let Some(wire) = reader.packed(*of == Kind::Double).map_err(|why| broken(why, path))? {
                list.push(self.value(of, wire, &path.index(list.len()), depth)?);
            }
            return Ok(());
        }
        list.push(self.value(of, wire, &path.index(list.len()), depth)?);
        Ok(())
    }

    /// Adds an entry to a map: a message with a key and a value.
    fn entry(
        &mut self,
        of: &Kind,
        wire: Wire<'_>,
        map: &mut Map<String, Value>,
        path: &Path<'_>,
        depth: usize,
    ) -> Result<(), Error> {
        let (mut key, mut value) = ("", None);
        let mut reader = Reader::new(scalar::bytes(wire, path)?);
        while let Some((number, wire)) = reader.field().map_err(|why| broken(why, path))? {
            match number {
                1 => key = scalar::text(wire, path)?,
                2 => value = Some(wire),
                _ => {}
            }
        }
        let here = path.key(key);
        // Go may leave a zero value out of the entry.
        let wire = value.unwrap_or(match of {
            Kind::Bool | Kind::Int32 | Kind::Int64 => Wire::Varint(0),
            Kind::Double => Wire::Fixed64(0),
            _ => Wire::Bytes(&[]),
        });
        let value = self.value(of, wire, &here, depth)?;
        map.insert(key.to_owned(), value);
        Ok(())
    }

    /// Decodes one value. An empty time is `null`.
    fn value(&mut self, of: &Kind, wire: Wire<'_>, path: &Path<'_>, depth: usize) -> Result<Value, Error> {
        self.count(path)?;
        match of {
            Kind::Object(name) => {
                let mut object = Map::new();
                if let Some(of) = all().get(name) {
                    self.message(of, scalar::bytes(wire, path)?, &mut object, path, depth + 1)?;
                }
                Ok(Value::Object(object))
            }
            Kind::OneOf(name) => {
                let mut fields = Map::new();
                if let Some(of) = all().get(name) {
                    self.message(of, scalar::bytes(wire, path)?, &mut fields, path, depth + 1)?;
                }
                Ok(union_value(fields))
            }
            // A list or map inside of another one is wrapped in a message with one field.
            Kind::List(of) => {
                let mut list = Vec::new();
                let mut reader = Reader::new(scalar::bytes(wire, path)?);
                while let Some((number, wire)) = reader.field().map_err(|why| broken(why, path))? {
                    if number == 1 {
                        self.elements(of, wire, &mut list, path, nested(path, depth)?)?;
                    }
                }
                Ok(Value::Array(list))
            }
            Kind::Map(of) => {
                let mut map = Map::new();
                let mut reader = Reader::new(scalar::bytes(wire, path)?);
                while let Some((number, wire)) = reader.field().map_err(|why| broken(why, path))? {
                    if number == 1 {
                        self.entry(of, wire, &mut map, path, nested(path, depth)?)?;
                    }
                }
                Ok(Value::Object(map))
            }
            Kind::Any => match scalar::first(wire, path)? {
                [] => Ok(Value::Null),
                raw if raw.starts_with(MAGIC) => super::object(raw, self, path, nested(path, depth)?),
                raw => scalar::json(raw, path),
            },
            scalar => scalar::value(scalar, wire, path),
        }
    }

    /// Counts a value against the limit.
    fn count(&mut self, path: &Path<'_>) -> Result<(), Error> {
        let left = self.values_left.checked_sub(1).ok_or_else(|| Error::TooMany { path: path.to_owned() })?;
        self.values_left = left;
        Ok(())
    }
}

/// Returns the depth of a nested message, or an error if it exceeds the limit.
fn nested(path: &Path<'_>, depth: usize) -> Result<usize, Error> {
    if depth + 1 >= MAX_DEPTH { Err(Error::TooDeep { path: path.to_owned() }) } else { Ok(depth + 1) }
}

/// The value of a field, created as `empty` if it is missing.
fn slot<'a>(object: &'a mut Map<String, Value>, name: &str, empty: Value) -> &'a mut Value {
    object.entry(name).or_insert(empty)
}

/// True for the zero value of a field that is neither required nor a pointer. Go writes it, but JSON leaves it out.
fn is_omitted(field: &Field, value: &Value) -> bool {
    let is_zero = match field.kind {
        Kind::Bool => *value == Value::Bool(false),
        Kind::String | Kind::Bytes => value.as_str() == Some(""),
        // An IntOrString that is an empty string is kept.
        Kind::Int32 | Kind::Int64 | Kind::Double | Kind::IntOrString => value.as_f64() == Some(0.0),
        // These values are kept, even if they are zero, such as `default: false`.
        Kind::Quantity | Kind::Time | Kind::MicroTime | Kind::Any | Kind::OneOf(_) => false,
        Kind::Object(_) | Kind::List(_) | Kind::Map(_) => false,
    };
    is_zero && !field.required && !field.pointer
}

/// The value of a union: a list, otherwise an object, otherwise a boolean, in the order of Go.
fn union_value(fields: Map<String, Value>) -> Value {
    let (mut object, mut bool) = (None, None);
    for (_, value) in fields {
        match value {
            Value::Array(_) => return value,
            Value::Object(_) => object = Some(value),
            value => bool = Some(value),
        }
    }
    object.or(bool).unwrap_or(Value::Null)
}

/// Adds the path to a wire error.
pub(super) fn broken(why: WireError, path: &Path<'_>) -> Error {
    let path = path.to_owned();
    match why {
        WireError::Truncated => Error::Truncated { path },
        WireError::Malformed => Error::Malformed { path },
    }
}
