//! The shape of every type a manifest may hold: fields, their types, and what is wrong with a value that does not fit.

mod all;
mod check;
mod field;
mod first_status;
mod fit;
mod node;
mod prune;
mod require;
mod scalar;
mod suggest;
#[cfg(test)]
mod tests;
mod types;

pub use self::all::{All, Numbered, Struct, all};
pub use self::check::check;
pub(crate) use self::check::v1_object;
pub use self::field::{Apply, Field, Patch};
pub use self::first_status::first_status;
pub use self::fit::fit;
pub use self::node::shape;
pub use self::prune::prune;
pub(crate) use self::prune::prune_metadata;
pub(crate) use self::require::{require, require_status};
pub use self::suggest::nearest;
pub use self::types::{Kind, Schema, Type, v1};
