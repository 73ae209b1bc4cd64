//! The values that expressions use and return.

mod compare;
mod json;
mod list;
mod map;
mod text;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

pub use self::list::{Identity, List};
pub use self::map::{Key, Map};
pub(crate) use self::text::{duration, timestamp};
use crate::error::Error;

/// A value. Large values are reference-counted, so that copies are cheap.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    String(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A list.
    List(Arc<List>),
    /// A map.
    Map(Arc<Map>),
    /// A duration in nanoseconds.
    Duration(i64),
    /// A timestamp.
    Timestamp(Timestamp),
    /// A type, by its name.
    Type(Arc<str>),
    /// An optional.
    Optional(Option<Arc<Value>>),
    /// A value of an opaque type.
    Opaque(Arc<dyn Opaque>),
}

/// A value of a library's opaque type.
pub trait Opaque: Any + fmt::Debug + Send + Sync {
    /// The type name, as in function declarations.
    fn type_name(&self) -> &'static str;

    /// True if both values are equal. Values of different types are not.
    fn equals(&self, other: &dyn Opaque) -> bool;

    /// The nesting depth of the value.
    fn depth(&self) -> usize {
        0
    }

    /// Returns a field of the value, or `None` if there is no such field.
    fn field(&self, _name: &str) -> Option<Result<Value, Error>> {
        None
    }

    /// Returns the value for downcasts.
    fn as_any(&self) -> &dyn Any;
}

impl Value {
    /// Creates an atomic list.
    pub fn list(items: Vec<Value>) -> Self {
        Self::List(Arc::new(List::new(items, Identity::Place)))
    }

    /// Creates a map.
    pub fn map(entries: impl IntoIterator<Item = (Key, Value)>) -> Self {
        Self::Map(Arc::new(Map::from_iter(entries)))
    }

    /// Creates a map with string keys.
    pub fn object(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        Self::map(fields.into_iter().map(|(name, value)| (Key::from(name), value)))
    }

    /// Creates a value of an opaque type.
    pub fn opaque(value: impl Opaque) -> Self {
        Self::Opaque(Arc::new(value))
    }

    /// The name of the type.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Opaque(value) => value.type_name(),
        }
    }

    /// The nesting depth of the value.
    pub fn depth(&self) -> usize {
        match self {
            Self::List(list) => list.depth(),
            Self::Map(map) => map.depth(),
            Self::Optional(Some(value)) => value.depth() + 1,
            Self::Opaque(value) => value.depth(),
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Uint(_)
            | Self::Double(_)
            | Self::String(_)
            | Self::Bytes(_)
            | Self::Duration(_)
            | Self::Timestamp(_)
            | Self::Type(_)
            | Self::Optional(None) => 0,
        }
    }

    /// True for zero, `false`, empty strings, lists and maps, and `null`.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null | Self::Optional(None) => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::List(list) => list.items.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Duration(nanos) => *nanos == 0,
            Self::Timestamp(_) | Self::Type(_) | Self::Optional(Some(_)) | Self::Opaque(_) => false,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }
}
