//! Typed access to the arguments of a function.
//!
//! Each accessor fails with [`Error::NoSuchOverload`] if the argument is missing or has another type. After type
//! checking, that happens only for arguments of type `dyn`.

use crate::error::Error;
use crate::value::{List, Value};

/// Returns a string argument.
///
/// # Errors
/// If it is missing or not a string.
pub fn text(arguments: &[Value], at: usize) -> Result<&str, Error> {
    match arguments.get(at) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(other()),
    }
}

/// Returns an integer argument.
///
/// # Errors
/// If it is missing or not an integer.
pub fn int(arguments: &[Value], at: usize) -> Result<i64, Error> {
    match arguments.get(at) {
        Some(Value::Int(value)) => Ok(*value),
        _ => Err(other()),
    }
}

/// Returns a list argument.
///
/// # Errors
/// If it is missing or not a list.
pub fn list(arguments: &[Value], at: usize) -> Result<&List, Error> {
    match arguments.get(at) {
        Some(Value::List(list)) => Ok(list),
        _ => Err(other()),
    }
}

/// Returns an argument of an opaque type.
///
/// # Errors
/// If it is missing or of another type.
pub fn own<T: 'static>(arguments: &[Value], at: usize) -> Result<&T, Error> {
    let found = match arguments.get(at) {
        Some(Value::Opaque(value)) => value.as_any().downcast_ref(),
        _ => None,
    };
    found.ok_or_else(other)
}

fn other() -> Error {
    Error::NoSuchOverload(String::new())
}
