//! What is known of a value before there is one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// Anything.
    Dyn,
    /// Nothing.
    Null,
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A whole number that is never negative.
    Uint,
    /// A number with a fraction.
    Double,
    /// A text.
    String,
    /// Bytes.
    Bytes,
    /// A time between two moments.
    Duration,
    /// A moment.
    Timestamp,
    /// A type.
    Type,
    /// Values of a type, in order.
    List(Arc<Type>),
    /// Values by key.
    Map(Arc<Type>, Arc<Type>),
    /// Fields that are known by name.
    Object(Arc<ObjectType>),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// A library's own type.
    Foreign(&'static str),
}

/// Fields that are known by name, each with its type.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectType {
    /// What errors call it.
    pub name: String,
    /// Its fields.
    pub fields: BTreeMap<String, Type>,
}

impl Type {
    /// A list of values of that type.
    pub fn list(of: Type) -> Self {
        Self::List(Arc::new(of))
    }

    /// Values of that type by name.
    pub fn map(of: Type) -> Self {
        Self::Map(Arc::new(Self::String), Arc::new(of))
    }

    /// Fields that are known by name.
    pub fn object(name: impl Into<String>, fields: impl IntoIterator<Item = (String, Type)>) -> Self {
        Self::Object(Arc::new(ObjectType { name: name.into(), fields: fields.into_iter().collect() }))
    }

    /// A value of that type, or none.
    pub fn optional(of: Type) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// True when it has so many parts at most, each counted wherever it stands: what is larger is not worth knowing.
    pub fn has_at_most(&self, parts: usize) -> bool {
        self.counted(parts).is_some()
    }

    /// How many of so many parts are left beside its own.
    fn counted(&self, left: usize) -> Option<usize> {
        let left = left.checked_sub(1)?;
        match self {
            Self::List(of) | Self::Optional(of) => of.counted(left),
            Self::Map(key, value) => value.counted(key.counted(left)?),
            Self::Object(of) => of.fields.values().try_fold(left, |left, field| field.counted(left)),
            Self::Dyn
            | Self::Null
            | Self::Bool
            | Self::Int
            | Self::Uint
            | Self::Double
            | Self::String
            | Self::Bytes
            | Self::Duration
            | Self::Timestamp
            | Self::Type
            | Self::Foreign(_) => Some(left),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// True when a value may be of both types, as far as they are known.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Null, _) | (_, Self::Dyn | Self::Null) => true,
            (Self::List(one), Self::List(two)) | (Self::Optional(one), Self::Optional(two)) => one.meets(two),
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.meets(other_key) && value.meets(other_value)
            }
            (Self::Object(_), Self::Map(key, _)) | (Self::Map(key, _), Self::Object(_)) => {
                key.meets(&Self::String)
            }
            (one, two) => one == two || (one.is_number() && two.is_number()),
        }
    }

    /// The type of what is of one type or the other.
    pub(crate) fn join(self, other: Self) -> Self {
        if self == other { self } else { Self::Dyn }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dyn => "dyn",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Type => "type",
            Self::List(of) => return write!(f, "list({of})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Object(of) => &of.name,
            Self::Optional(of) => return write!(f, "optional_type({of})"),
            Self::Foreign(name) => name,
        })
    }
}
