//! The Common Expression Language: small programs over values that always end and harm nobody who runs them.
//!
//! A [`Program`] is compiled once, which refuses what cannot be right, and run often: with [`Bindings`] for its
//! variables and a [`Budget`] of steps, so that no text and no list makes it take long. Nothing in here panics,
//! and no tree is walked deeper than a constant allows. What a library adds are rows of [`Function`]s over its own
//! [`Foreign`] values. Written anew because the crate of that name has neither a budget nor a check of types, reads with
//! a generated parser that may panic (which ends our programs), and brings a dozen crates along.

pub mod arguments;
mod budget;
mod check;
mod error;
mod function;
mod library;
mod literal;
mod parse;
mod program;
mod run;
mod syntax;
#[cfg(test)]
mod tests;
mod token;
mod types;
mod value;

pub use self::budget::Budget;
pub use self::error::{CompileError, Error};
pub use self::function::{Function, Gives, Kind, Run, function, method};
pub use self::library::duration;
pub use self::program::{Bindings, Environment, MAX_LENGTH, Program};
pub use self::types::{ObjectType, Type};
pub use self::value::{Foreign, Identity, Key, List, Map, Value};
