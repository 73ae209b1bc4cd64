//! Function declarations of libraries.

use crate::budget::Budget;
use crate::error::Error;
use crate::types::Type;
use crate::value::Value;

/// The implementation of a function. The arguments have the declared kinds.
pub type Run = fn(&[Value], &mut Budget) -> Result<Value, Error>;

/// One overload of a function.
#[derive(Debug)]
pub struct Function {
    /// The name of the function.
    pub name: &'static str,
    /// True for a member function, whose receiver is the first argument.
    pub is_method: bool,
    /// The kinds of the arguments.
    pub takes: &'static [Kind],
    /// The result type.
    pub returns: Returns,
    /// The implementation of the function.
    pub run: Run,
}

/// The kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value of any type.
    Any,
    /// A boolean.
    Bool,
    /// A signed integer.
    Int,
    /// An unsigned integer.
    Uint,
    /// A floating-point number.
    Double,
    /// A string.
    Text,
    /// Bytes.
    Bytes,
    /// A list.
    List,
    /// A map.
    Map,
    /// A duration.
    Duration,
    /// A timestamp.
    Timestamp,
    /// An optional.
    Optional,
    /// An opaque type, by its name.
    Opaque(&'static str),
}

/// The result type of a function.
#[derive(Clone, Debug)]
pub enum Returns {
    /// The given type.
    Is(Type),
    /// A list of the given type.
    ListOf(Type),
    /// The type of the first argument.
    Same,
    /// The element type of the first argument.
    Inner,
    /// A list with the element type of the lists in the first argument.
    InnerInner,
    /// An optional of the given type.
    OptionalIs(Type),
    /// An optional of the type of the first argument.
    OptionalSame,
    /// An optional of the element type of the first argument.
    OptionalInner,
}

/// Declares a global function.
pub const fn function(name: &'static str, takes: &'static [Kind], returns: Returns, run: Run) -> Function {
    Function { name, is_method: false, takes, returns, run }
}

/// Declares a member function.
pub const fn method(name: &'static str, takes: &'static [Kind], returns: Returns, run: Run) -> Function {
    Function { name, is_method: true, takes, returns, run }
}

impl Kind {
    /// True if a value of the type may be of this kind.
    pub(crate) fn is_assignable(self, of: &Type) -> bool {
        match (self, of) {
            (Self::Any, _) | (_, Type::Dyn) => true,
            (Self::Opaque(one), Type::Opaque(two)) => one == *two,
            (Self::Bool, Type::Bool)
            | (Self::Int, Type::Int)
            | (Self::Uint, Type::Uint)
            | (Self::Double, Type::Double)
            | (Self::Text, Type::String)
            | (Self::Bytes, Type::Bytes)
            | (Self::List, Type::List(_))
            | (Self::Map, Type::Map(..) | Type::Object(_))
            | (Self::Duration, Type::Duration)
            | (Self::Timestamp, Type::Timestamp)
            | (Self::Optional, Type::Optional(_)) => true,
            _ => false,
        }
    }

    /// True if a value is of this kind.
    pub(crate) fn takes(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _) => true,
            (Self::Opaque(name), Value::Opaque(value)) => value.type_name() == name,
            (Self::Bool, Value::Bool(_))
            | (Self::Int, Value::Int(_))
            | (Self::Uint, Value::Uint(_))
            | (Self::Double, Value::Double(_))
            | (Self::Text, Value::String(_))
            | (Self::Bytes, Value::Bytes(_))
            | (Self::List, Value::List(_))
            | (Self::Map, Value::Map(_))
            | (Self::Duration, Value::Duration(_))
            | (Self::Timestamp, Value::Timestamp(_))
            | (Self::Optional, Value::Optional(_)) => true,
            _ => false,
        }
    }
}

impl Returns {
    /// The result type for arguments of these types.
    pub(crate) fn of(&self, arguments: &[Type]) -> Type {
        let first = || arguments.first().cloned().unwrap_or(Type::Dyn);
        let inner = |of: Type| match of {
            Type::List(of) | Type::Optional(of) => Type::clone(&of),
            _ => Type::Dyn,
        };
        match self {
            Self::Is(of) => of.clone(),
            Self::ListOf(of) => Type::list(of.clone()),
            Self::Same => first(),
            Self::Inner => inner(first()),
            Self::InnerInner => Type::list(inner(inner(first()))),
            Self::OptionalIs(of) => Type::optional(of.clone()),
            Self::OptionalSame => Type::optional(first()),
            Self::OptionalInner => Type::optional(inner(first())),
        }
    }
}
