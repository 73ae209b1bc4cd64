//! The CEL libraries of Kubernetes: quantities, IP addresses, URLs, semantic versions and formats.
//!
//! The crate `cel` implements the language. Each library is one file here; [`environment`] contains all of them.

mod formats;
mod network;
mod quantity;
mod semver;
#[cfg(test)]
mod tests;
mod url;

use cel::{Bindings, Budget, Environment, Error, Program, Value};

/// Cost limit of one expression; the `PerCallLimit` of the stock API server.
pub const EXPRESSION_COST_LIMIT: u64 = 1_000_000;
/// Cost budget of all expressions for one object; the `RuntimeCELCostBudget` of the stock API server.
pub const OBJECT_COST_BUDGET: u64 = 10_000_000;
/// Maximum size of the result of a message expression in bytes, as in the stock API server.
pub const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// The environment with all libraries.
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

/// Evaluates an expression within its own limit and the remaining budget.
///
/// # Errors
/// If the evaluation fails, for example for a missing field, or exceeds a limit.
pub fn run(program: &Program, bindings: &Bindings, budget: &mut Budget) -> Result<Value, Error> {
    program.run_within(bindings, budget, EXPRESSION_COST_LIMIT)
}

/// The message for a failed expression: the result of the message expression, the static message, or the fallback.
pub fn message(made: Option<Value>, plain: &str, otherwise: impl FnOnce() -> String) -> String {
    made.as_ref().and_then(line).unwrap_or_else(|| match plain {
        "" => otherwise(),
        plain => plain.to_owned(),
    })
}

/// The result of a message expression, if it is a single non-empty line within the length limit.
fn line(made: &Value) -> Option<String> {
    let Value::String(text) = made else { return None };
    let text = text.trim();
    (!text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n')).then(|| text.to_owned())
}

/// Implements [`cel::Opaque`] for a type with `PartialEq`.
macro_rules! foreign {
    ($type:ty, $name:expr) => {
        impl cel::Opaque for $type {
            fn type_name(&self) -> &'static str {
                $name
            }

            fn equals(&self, other: &dyn cel::Opaque) -> bool {
                other.as_any().downcast_ref::<Self>() == Some(self)
            }

            fn as_any(&self) -> &dyn std::any::Any {
                self
            }
        }
    };
}
use foreign;
