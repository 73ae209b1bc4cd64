//! The arguments of a call as what its function has said it takes.
//!
//! Each fails with [`Error::NoSuchOverload`] when there is no such argument or it is something else, which a checked call
//! only meets where types were not known.

use crate::error::Error;
use crate::value::{List, Value};

/// A text.
///
/// # Errors
/// When it is not there, or no text.
pub fn text(arguments: &[Value], at: usize) -> Result<&str, Error> {
    match arguments.get(at) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(other()),
    }
}

/// A whole number.
///
/// # Errors
/// When it is not there, or no whole number.
pub fn int(arguments: &[Value], at: usize) -> Result<i64, Error> {
    match arguments.get(at) {
        Some(Value::Int(value)) => Ok(*value),
        _ => Err(other()),
    }
}

/// A list.
///
/// # Errors
/// When it is not there, or no list.
pub fn list(arguments: &[Value], at: usize) -> Result<&List, Error> {
    match arguments.get(at) {
        Some(Value::List(list)) => Ok(list),
        _ => Err(other()),
    }
}

/// One of a library's own types.
///
/// # Errors
/// When it is not there, or of another type.
pub fn own<T: 'static>(arguments: &[Value], at: usize) -> Result<&T, Error> {
    let found = match arguments.get(at) {
        Some(Value::Foreign(value)) => value.as_any().downcast_ref(),
        _ => None,
    };
    found.ok_or_else(other)
}

fn other() -> Error {
    Error::NoSuchOverload(String::new())
}
