//! The Common Expression Language (CEL): expressions that always terminate and have no side effects.
//!
//! A [`Program`] is compiled and type-checked once. It is evaluated with [`Bindings`] for its variables and a
//! [`Budget`] that limits the cost. Nothing in this crate panics, and a constant limits the recursion depth.
//! Libraries declare [`Function`]s and [`Opaque`] types.
//!
//! The crate `cel` from crates.io is not used, because it has neither a cost budget nor a type checker. Its
//! generated parser may panic, and it has a dozen dependencies.
#![deny(missing_docs)]

pub mod arguments;
mod ast;
mod budget;
mod check;
mod cost;
mod error;
mod function;
mod lexer;
mod library;
mod operators;
mod parse;
mod program;
mod run;
#[cfg(test)]
mod tests;
mod types;
mod value;

pub use self::budget::Budget;
pub use self::check::Environment;
pub use self::cost::{MAX_REQUEST_BYTES, SizeEstimate};
pub use self::error::{CompileError, Error};
pub use self::function::{Function, Kind, Returns, Run, function, method};
pub use self::library::duration;
pub use self::program::{MAX_LENGTH, Program};
pub use self::run::Bindings;
pub use self::types::{ObjectType, Type};
pub use self::value::{Identity, Key, List, Map, Opaque, Value};
