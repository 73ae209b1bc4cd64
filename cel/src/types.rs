//! The static types of expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A type that is unknown at compile time.
    Dyn,
    /// The type of `null`.
    Null,
    /// A boolean.
    Bool,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    Uint,
    /// A floating-point number.
    Double,
    /// A string.
    String,
    /// Bytes.
    Bytes,
    /// A duration.
    Duration,
    /// A timestamp.
    Timestamp,
    /// The type of types.
    Type,
    /// A list, with its element type.
    List(Arc<Type>),
    /// A map, with its key and value types.
    Map(Arc<Type>, Arc<Type>),
    /// An object with known fields.
    Object(Arc<ObjectType>),
    /// An optional value, with the type of the value.
    Optional(Arc<Type>),
    /// An opaque type of a library, by its name.
    Opaque(&'static str),
}

/// An object type with its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectType {
    /// The name in error messages.
    pub name: String,
    /// The types of the fields by name.
    pub fields: BTreeMap<String, Type>,
}

impl Type {
    /// Creates a list type.
    pub fn list(of: Type) -> Self {
        Self::List(Arc::new(of))
    }

    /// Creates a type of maps with string keys.
    pub fn map(of: Type) -> Self {
        Self::Map(Arc::new(Self::String), Arc::new(of))
    }

    /// Creates an object type with these fields.
    pub fn object(name: impl Into<String>, fields: impl IntoIterator<Item = (String, Type)>) -> Self {
        Self::Object(Arc::new(ObjectType { name: name.into(), fields: fields.into_iter().collect() }))
    }

    /// Creates an optional type.
    pub fn optional(of: Type) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// True if the type has at most `parts` nested types. The check limits the work with large types.
    pub fn has_at_most(&self, parts: usize) -> bool {
        self.counted(parts).is_some()
    }

    /// Subtracts the number of nested types from `left`. Returns `None` if there are more.
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
            | Self::Opaque(_) => Some(left),
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// True if a value can be of both types.
    pub(crate) fn is_assignable(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Null, _) | (_, Self::Dyn | Self::Null) => true,
            (Self::List(one), Self::List(two)) | (Self::Optional(one), Self::Optional(two)) => {
                one.is_assignable(two)
            }
            (Self::Map(key, value), Self::Map(other_key, other_value)) => {
                key.is_assignable(other_key) && value.is_assignable(other_value)
            }
            (Self::Object(_), Self::Map(key, _)) | (Self::Map(key, _), Self::Object(_)) => {
                key.is_assignable(&Self::String)
            }
            (one, two) => one == two || (one.is_number() && two.is_number()),
        }
    }

    /// The common type; `dyn` if the types differ.
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
            Self::Opaque(name) => name,
        })
    }
}
