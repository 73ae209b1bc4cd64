//! CustomResourceDefinitions: what they say, whether they make sense, and what follows for objects of their kind.
//!
//! A definition is checked once when it is written ([`CustomResourceDefinitions`]), read once when it is served
//! ([`Definition`]), and each of its versions has a [`Schema`] that prunes, defaults, checks and merges objects.

mod check;
mod custom;
mod definition;
mod names;
mod rules;
mod schema;
mod status;
mod strategy;
#[cfg(test)]
mod tests;
mod valid;

pub(crate) use self::check::is_of_format;
pub use self::custom::{Custom, fill, unknown_fields};
pub use self::definition::{Definition, Printed, Scale, Version};
pub use self::names::{Names, Taken};
pub use self::schema::Schema;
pub use self::status::{has_all_names, is_doomed, is_established, settled, terminating, with_status};
pub use self::strategy::{CLEANUP, CustomResourceDefinitions};
