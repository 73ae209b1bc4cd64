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

use cel::{Bindings, Budget, Environment, Error, Program, Value};

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

/// Runs an expression within what one may take and what is left for all of an object.
///
/// # Errors
/// What goes wrong, such as a field that is not there, or that it takes too long.
pub fn run(program: &Program, bindings: &Bindings, budget: &mut Budget) -> Result<Value, Error> {
    program.run_within(bindings, budget, STEPS_AN_EXPRESSION)
}

/// What is told of a condition that does not hold: what its expression for that made, its plain message, or that it failed.
pub fn message(made: Option<Value>, plain: &str, otherwise: impl FnOnce() -> String) -> String {
    made.as_ref().and_then(line).unwrap_or_else(|| match plain {
        "" => otherwise(),
        plain => plain.to_owned(),
    })
}

/// The text that a message expression made, if it may be told: one line that says something and is not too long.
fn line(made: &Value) -> Option<String> {
    let Value::String(text) = made else { return None };
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n')).then(|| text.to_owned())
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
