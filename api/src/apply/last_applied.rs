//! Migration from client-side apply: reads and updates the `last-applied-configuration` annotation.

use serde_json::Value;

use super::compare::Comparison;
use super::extract::extract;
use super::field_set::FieldSet;
use super::writer::Writer;
use crate::patch::{MAX_DEPTH, fits};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The only field manager that takes over the fields of client-side apply.
const KUBECTL: &str = "kubectl";

/// Maximum total size of annotations in bytes, including their keys, as in Kubernetes.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// The fields that client-side apply set and that are unchanged in the live object. `None` if the writer must not take
/// them over.
pub(super) fn owned(live: &Value, writer: &Writer<'_>) -> Option<FieldSet> {
    let text = annotation(live).filter(|_| writer.manager == KUBECTL)?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last.get("apiVersion")?.as_str()? != writer.api_version || !fits(&last, MAX_DEPTH) {
        return None;
    }
    let Comparison { removed, modified, added } = Comparison::of(&last, live, writer.shape);
    let set = extract(&last, writer.shape);
    Some(set.difference(&modified).difference(&added).difference(&removed))
}

/// Updates the annotation if the object has one, so that clients can return to client-side apply.
pub(super) fn renew(object: &mut Value, applied: &Value, writer: &Writer<'_>) {
    if writer.manager != KUBECTL || annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.shift_remove(ANNOTATION);
    }
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    let text = format!("{applied}\n");
    let others = annotations.iter().filter(|(name, _)| *name != ANNOTATION);
    let others: usize = others.map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if others + ANNOTATION.len() + text.len() > MAX_ANNOTATIONS_BYTES {
        annotations.shift_remove(ANNOTATION);
    } else {
        annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}
