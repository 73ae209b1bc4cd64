//! What the kinds that a definition makes do beyond being stored.

use std::sync::Arc;

use serde_json::Value;

use super::schema::Schema;
use crate::strategy::{Cause, Json, Part, Strategy};

/// The logic of one version of a custom kind.
#[derive(Clone, Debug)]
pub struct Custom {
    schema: Arc<Schema>,
    warning: Option<String>,
}

impl Custom {
    /// The logic that follows from a schema; `warning` is told whoever writes, such as that the version is old.
    pub fn new(schema: Arc<Schema>, warning: Option<String>) -> Self {
        Self { schema, warning }
    }
}

impl Strategy for Custom {
    fn default(&self, object: &mut Json) {
        fill(&self.schema, object);
    }

    fn validate(&self, object: &Json, before: Option<&Json>, _part: &Part<'_>) -> Vec<Cause> {
        self.schema.check(object, before)
    }

    fn warnings(&self, _object: &Json) -> Vec<String> {
        self.warning.iter().cloned().collect()
    }
}

/// Does something to an object that wants to be a value for it.
fn with<T>(object: &mut Json, act: impl FnOnce(&mut Value) -> T) -> T {
    let mut value = Value::Object(std::mem::take(object));
    let result = act(&mut value);
    if let Value::Object(fields) = value {
        *object = fields;
    }
    result
}

/// Takes out of an object what its schema does not have and returns the paths.
pub fn unknown_fields(schema: &Schema, object: &mut Json) -> Vec<String> {
    with(object, |value| schema.prune(value))
}

/// Fills in an object what its schema says of what was left out.
pub fn fill(schema: &Schema, object: &mut Json) {
    with(object, |value| schema.fill(value));
}
