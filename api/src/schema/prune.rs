//! Prunes unknown fields of built-in kinds.

use serde_json::{Map, Value};

use super::type_table::{Struct, all};
use super::types::Kind;
use crate::path::Path;

/// Limit for the number of pruned fields that are reported.
const MAX_REPORTED: usize = 100;

/// Removes all unknown fields and returns their paths (`spec.containers[0].imagee`). Nulls are removed silently. Custom
/// resources stay unchanged.
pub fn prune(object: &mut Map<String, Value>, api_version: &str, kind: &str) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(of) = all().kind_of(api_version, kind) {
        fields(of, object, &Path::ROOT, &mut unknown);
    }
    unknown.truncate(MAX_REPORTED);
    unknown
}

/// Prunes unknown fields of the metadata of a custom resource.
pub(crate) fn prune_metadata(metadata: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    if let (Some(of), Value::Object(metadata)) = (all().get("meta.v1.ObjectMeta"), metadata) {
        fields(of, metadata, path, unknown);
    }
}

fn fields(of: &'static Struct, object: &mut Map<String, Value>, path: &Path<'_>, unknown: &mut Vec<String>) {
    object.retain(|name, value| {
        let here = path.field(name);
        let field = of.field(name);
        match field {
            Some(field) => walk(&field.kind, value, &here, unknown),
            None => unknown.push(here.to_owned().to_string()),
        }
        field.is_some() && !value.is_null()
    });
}

fn walk(kind: &'static Kind, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    match (kind, value) {
        (Kind::Object(name), Value::Object(object)) => {
            if let Some(of) = all().get(name) {
                fields(of, object, path, unknown);
            }
        }
        (Kind::List(of), Value::Array(elements)) => {
            for (at, element) in elements.iter_mut().enumerate() {
                walk(of, element, &path.index(at), unknown);
            }
        }
        (Kind::Map(of), Value::Object(entries)) => {
            for (key, entry) in entries.iter_mut() {
                walk(of, entry, &path.key(key), unknown);
            }
            entries.retain(|_, entry| !entry.is_null());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
