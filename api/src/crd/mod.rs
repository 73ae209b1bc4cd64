//! CustomResourceDefinitions: validation, parsing, and the schemas of custom resources.
//!
//! [`CustomResourceDefinitions`] validates a definition when it is written. [`Definition`] is its parsed form, which is
//! served. The [`Schema`] of each version prunes, defaults, validates and merges custom resources.

mod check;
mod custom_resource;
mod definition;
mod names;
mod rules;
mod schema;
mod status;
mod strategy;
#[cfg(test)]
mod tests;
mod validation;

pub use self::custom_resource::{CustomResourceStrategy, fill, unknown_fields};
pub use self::definition::{Definition, PrinterColumn, Scale, Version};
pub use self::names::{Names, UsedNames};
pub use self::schema::Schema;
pub use self::status::{
    calculated_status, has_all_names, is_established, is_terminating, terminating_status, with_status,
};
pub use self::strategy::{CLEANUP, CustomResourceDefinitions};
