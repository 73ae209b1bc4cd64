//! What expressions of Kubernetes know beyond their language: amounts, addresses, URLs, versions, names.
//!
//! The language is the crate `cel`; a family of functions is a file here. [`environment`] has all of them.

mod formats;
mod network;
mod quantity;
mod semver;
#[cfg(test)]
mod tests;
mod url;

use cel::{Environment, Error, Value};

/// Steps that one expression may take: the stock server's, whose rules cost about as much as ours.
pub const STEPS_AN_EXPRESSION: u64 = 1_000_000;
/// Steps that all expressions together may take for one object; the stock server's.
pub const STEPS_AN_OBJECT: u64 = 10_000_000;
/// Bytes of the longest message that an expression may make; the stock server's.
pub const MAX_MESSAGE: usize = 5 * 1024;

/// What every expression may call.
pub fn environment() -> Environment {
    Environment {
        variables: Vec::new(),
        libraries: vec![
            quantity::FUNCTIONS,
            network::FUNCTIONS,
            url::FUNCTIONS,
            semver::FUNCTIONS,
            formats::FUNCTIONS,
        ],
        constructs: &[],
    }
}

/// The text that a message expression made, if it may be told: one line that says something and is not too long.
pub fn message(made: &Value) -> Option<String> {
    let Value::String(text) = made else { return None };
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n')).then(|| text.to_owned())
}

/// An argument as one of a library's own types.
fn own<T: 'static>(arguments: &[Value], at: usize) -> Result<&T, Error> {
    let found = match arguments.get(at) {
        Some(Value::Foreign(value)) => value.as_any().downcast_ref(),
        _ => None,
    };
    found.ok_or_else(|| Error::NoSuchOverload(String::new()))
}

/// An argument that is a text.
fn text(arguments: &[Value], at: usize) -> Result<&str, Error> {
    match arguments.get(at) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(Error::NoSuchOverload(String::new())),
    }
}

/// Makes one of our types a value of the language: equal when it is equal.
macro_rules! foreign {
    ($type:ty, $name:expr) => {
        impl cel::Foreign for $type {
            fn type_name(&self) -> &'static str {
                $name
            }

            fn equals(&self, other: &dyn cel::Foreign) -> bool {
                other.as_any().downcast_ref::<Self>() == Some(self)
            }

            fn as_any(&self) -> &dyn std::any::Any {
                self
            }
        }
    };
}
use foreign;
