//! A function is a row: what it is called, what it takes and gives, and what it does.

use crate::budget::Budget;
use crate::error::Error;
use crate::types::Type;
use crate::value::Value;

/// What a function does with its arguments, which are of the kinds it takes.
pub type Run = fn(&[Value], &mut Budget) -> Result<Value, Error>;

/// A function of a library. Several of one name differ in what they take.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// It is called on its first argument.
    pub is_method: bool,
    /// What it takes.
    pub takes: &'static [Kind],
    /// What it gives.
    pub gives: Gives,
    /// What it does.
    pub run: Run,
}

/// A kind of value that a function takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything.
    Any,
    /// True or false.
    Bool,
    /// A whole number.
    Int,
    /// A whole number that is never negative.
    Uint,
    /// A number with a fraction.
    Double,
    /// A text.
    Text,
    /// Bytes.
    Bytes,
    /// A list.
    List,
    /// A map.
    Map,
    /// A time between two moments.
    Duration,
    /// A moment.
    Timestamp,
    /// A value that may be absent.
    Optional,
    /// A library's own type.
    Foreign(&'static str),
}

/// What a function gives.
#[derive(Clone, Debug)]
pub enum Gives {
    /// A value of that type.
    Is(Type),
    /// A list of that type.
    ListOf(Type),
    /// What its first argument is.
    Same,
    /// What its first argument holds.
    Inner,
    /// What the lists in its first argument hold, as a list.
    InnerInner,
    /// An optional of that type.
    OptionalIs(Type),
    /// An optional of what its first argument is.
    OptionalSame,
    /// An optional of what its first argument holds.
    OptionalInner,
}

/// A function that is called by its name.
pub const fn function(name: &'static str, takes: &'static [Kind], gives: Gives, run: Run) -> Function {
    Function { name, is_method: false, takes, gives, run }
}

/// A function that is called on its first argument.
pub const fn method(name: &'static str, takes: &'static [Kind], gives: Gives, run: Run) -> Function {
    Function { name, is_method: true, takes, gives, run }
}

impl Kind {
    /// True when a value of that type may be of this kind.
    pub(crate) fn meets(self, of: &Type) -> bool {
        match (self, of) {
            (Self::Any, _) | (_, Type::Dyn) => true,
            (Self::Foreign(one), Type::Foreign(two)) => one == *two,
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

    /// True when a value is of this kind.
    pub(crate) fn takes(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _) => true,
            (Self::Foreign(name), Value::Foreign(value)) => value.type_name() == name,
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

impl Gives {
    /// The type of what comes out, when those go in.
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
