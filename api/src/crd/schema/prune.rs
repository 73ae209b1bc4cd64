//! Prunes fields that are not in the schema.

use serde_json::Value;

use super::{Additional, Schema};
use crate::path::Path;
use crate::schema::prune_metadata;

/// Limit for the number of pruned fields that are reported.
const MAX_REPORTED: usize = 100;

impl Schema {
    /// Removes all fields that the schema neither defines nor preserves, and returns their paths (`spec.imagee`).
    pub fn prune(&self, value: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        prune(Some(self), value, &Path::ROOT, &mut unknown);
        unknown
    }
}

/// Prunes a value. Without a schema, all fields of the value are removed.
fn prune(schema: Option<&Schema>, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let here = path.field(name);
            let Some(schema) = schema else { return drop_field(&here, unknown) };
            if schema.is_meta(name) {
                if name == "metadata" {
                    prune_metadata(value, &here, unknown);
                    unknown.truncate(MAX_REPORTED);
                }
                return true;
            }
            match (schema.property(name), &schema.additional) {
                (Some(property), _) => prune(Some(property), value, &here, unknown),
                (None, Additional::Schema(values)) => prune(Some(values), value, &here, unknown),
                (None, Additional::Any) if !schema.preserves => prune(None, value, &here, unknown),
                (None, Additional::Any | Additional::None) if schema.preserves => {}
                (None, Additional::Any | Additional::None) => return drop_field(&here, unknown),
            }
            true
        }),
        Value::Array(elements) => {
            let items = schema.and_then(|schema| schema.items.as_deref());
            if items.is_none() && schema.is_some_and(|schema| schema.preserves) {
                return;
            }
            for (at, element) in elements.iter_mut().enumerate() {
                prune(items, element, &path.index(at), unknown);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn drop_field(path: &Path<'_>, unknown: &mut Vec<String>) -> bool {
    if unknown.len() < MAX_REPORTED {
        unknown.push(path.to_owned().to_string());
    }
    false
}
