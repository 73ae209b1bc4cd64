//! What an expression makes: a number, a text, a list, or something that only a library knows.

mod compare;
mod json;
mod list;
mod map;
mod show;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

pub use self::list::{Identity, List};
pub use self::map::{Key, Map};
pub(crate) use self::show::{duration, timestamp};
use crate::error::Error;

/// A value. Large ones are shared, so that a copy costs nothing.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number that is never negative.
    Uint(u64),
    /// A number with a fraction.
    Double(f64),
    /// A text.
    String(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// Values in order.
    List(Arc<List>),
    /// Values by key.
    Map(Arc<Map>),
    /// A time between two moments, in nanoseconds.
    Duration(i64),
    /// A moment.
    Timestamp(Timestamp),
    /// A type, by its name.
    Type(Arc<str>),
    /// A value that may be absent.
    Optional(Option<Arc<Value>>),
    /// What a library knows.
    Foreign(Arc<dyn Foreign>),
}

/// A value of a library's own type.
pub trait Foreign: Any + fmt::Debug + Send + Sync {
    /// The name of the type, as signatures of functions have it.
    fn type_name(&self) -> &'static str;

    /// True for the same value; of another type it never is.
    fn equals(&self, other: &dyn Foreign) -> bool;

    /// How many values stand in each other in it.
    fn depth(&self) -> usize {
        0
    }

    /// A field of it; `None` when it has none of that name.
    fn field(&self, _name: &str) -> Option<Result<Value, Error>> {
        None
    }

    /// The value as what it is.
    fn as_any(&self) -> &dyn Any;
}

impl Value {
    /// A list of values that are told apart by where they stand.
    pub fn list(items: Vec<Value>) -> Self {
        Self::List(Arc::new(List::new(items, Identity::Place)))
    }

    /// A map.
    pub fn map(entries: impl IntoIterator<Item = (Key, Value)>) -> Self {
        Self::Map(Arc::new(Map::from_iter(entries)))
    }

    /// Values by names.
    pub fn object(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        Self::map(fields.into_iter().map(|(name, value)| (Key::from(name), value)))
    }

    /// What a library knows.
    pub fn foreign(value: impl Foreign) -> Self {
        Self::Foreign(Arc::new(value))
    }

    /// The name of its type.
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
            Self::Foreign(value) => value.type_name(),
        }
    }

    /// How many lists, maps and the like stand in each other in it.
    pub fn depth(&self) -> usize {
        match self {
            Self::List(list) => list.depth(),
            Self::Map(map) => map.depth(),
            Self::Optional(Some(value)) => value.depth() + 1,
            Self::Foreign(value) => value.depth(),
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

    /// True for zeros, empty texts, lists and maps, and nothing.
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
            Self::Timestamp(_) | Self::Type(_) | Self::Optional(Some(_)) | Self::Foreign(_) => false,
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
