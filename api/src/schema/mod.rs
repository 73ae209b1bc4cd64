//! The schemas of built-in types, and checks of values against them.

mod check;
mod field;
mod initial_status;
mod normalize;
mod prune;
mod require;
mod scalar;
mod shape;
#[cfg(test)]
mod tests;
mod type_table;
mod types;

pub use self::check::check;
pub use self::check::nearest;
pub(crate) use self::check::v1_object;
pub use self::field::{Apply, Field, Patch};
pub use self::initial_status::initial_status;
pub use self::normalize::normalize;
pub use self::prune::prune;
pub(crate) use self::prune::prune_metadata;
pub(crate) use self::require::{require, require_status};
pub use self::shape::shape;
pub use self::type_table::{Numbered, Struct, TypeTable, all};
pub use self::types::{Kind, Schema, Type, v1};
