//! CustomResourceDefinitions: validation, parsing, and the schemas of custom resources.
//!
//! [`CustomResourceDefinitions`] validates a definition when it is written. [`Definition`] is its parsed form, which is
//! served. The [`Schema`] of each version prunes, defaults, validates and merges custom resources.

mod check;
mod definition;
mod names;
mod rules;
mod schema;
mod status;
mod strategy;
#[cfg(test)]
mod tests;
mod validation;

use std::sync::Arc;

use serde_json::Value;

pub use self::definition::{Definition, PrinterColumn, Scale, Version};
pub use self::names::{Names, UsedNames};
pub use self::schema::Schema;
pub use self::status::{
    calculated_status, has_all_names, is_established, is_terminating, terminating_status, with_status,
};
pub use self::strategy::{CLEANUP, CustomResourceDefinitions};
use crate::strategy::{Cause, DefaultsTooLarge, Json, Part, Strategy};

/// The strategy of one version of a custom resource.
#[derive(Clone, Debug)]
pub struct CustomResourceStrategy {
    schema: Arc<Schema>,
    warning: Option<String>,
}

impl CustomResourceStrategy {
    /// Creates a strategy for a schema. `warning` is returned for every write, such as a deprecation warning.
    pub fn new(schema: Arc<Schema>, warning: Option<String>) -> Self {
        Self { schema, warning }
    }
}

impl Strategy for CustomResourceStrategy {
    fn default(&self, object: &mut Json) -> Result<(), DefaultsTooLarge> {
        fill(&self.schema, object)
    }

    fn validate(&self, object: &Json, before: Option<&Json>, _part: &Part<'_>) -> Vec<Cause> {
        self.schema.check(object, before)
    }

    fn warnings(&self, _object: &Json) -> Vec<String> {
        self.warning.iter().cloned().collect()
    }
}

/// Converts the object to a `Value`, calls `act` with it, and converts it back.
fn with<T>(object: &mut Json, act: impl FnOnce(&mut Value) -> T) -> T {
    let mut value = Value::Object(std::mem::take(object));
    let result = act(&mut value);
    if let Value::Object(fields) = value {
        *object = fields;
    }
    result
}

/// Removes the fields that the schema does not have, and returns their paths.
pub fn unknown_fields(schema: &Schema, object: &mut Json) -> Vec<String> {
    with(object, |value| schema.prune(value))
}

/// Sets the defaults of a schema in an object.
///
/// # Errors
/// If the defaults would make the object too large. Some defaults may be set then.
pub fn fill(schema: &Schema, object: &mut Json) -> Result<(), DefaultsTooLarge> {
    with(object, |value| schema.fill(value))
}
