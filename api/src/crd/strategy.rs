//! The strategy of CustomResourceDefinitions.

use serde_json::{Map, Value, json};

use super::{status, validation};
use crate::strategy::{Cause, DefaultsTooLarge, Json, Part, Strategy};

/// The finalizer that keeps a definition until its custom resources are deleted.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The strategy of CustomResourceDefinitions.
#[derive(Clone, Copy, Debug, Default)]
pub struct CustomResourceDefinitions;

impl Strategy for CustomResourceDefinitions {
    fn default(&self, object: &mut Json) -> Result<(), DefaultsTooLarge> {
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
            let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            if !kind.is_empty() {
                fill(names, "singular", || kind.to_lowercase().into());
                fill(names, "listKind", || format!("{kind}List").into());
            }
        }
        fill(spec, "conversion", || json!({"strategy": "None"}));
        if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
            fill(conversion, "strategy", || "None".into());
        }
        Ok(())
    }

    fn prepare(&self, object: &mut Json, before: Option<&Json>, part: &Part<'_>) {
        // Only the server may remove the finalizer, and only while the definition is terminating.
        if *part == Part::Main && !before.is_some_and(super::is_terminating) {
            add_cleanup_finalizer(object);
        }
        if *part == Part::Main && before.is_none() {
            let first = status::first(object);
            object.insert("status".to_owned(), first);
        }
    }

    fn validate(&self, object: &Json, before: Option<&Json>, part: &Part<'_>) -> Vec<Cause> {
        match part {
            Part::Main => validation::definition(object, before),
            Part::Status | Part::Sub(_) => Vec::new(),
        }
    }

    fn warnings(&self, object: &Json) -> Vec<String> {
        validation::warnings(object)
    }
}

fn fill(fields: &mut Map<String, Value>, name: &str, value: impl FnOnce() -> Value) {
    if fields.get(name).is_none_or(|there| there.is_null() || there == "") {
        fields.insert(name.to_owned(), value());
    }
}

fn add_cleanup_finalizer(object: &mut Json) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.iter().any(|finalizer| finalizer == CLEANUP)
    {
        finalizers.push(CLEANUP.into());
    }
}
