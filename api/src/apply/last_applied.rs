//! Moving from client-side apply: what its annotation says was `kubectl`'s already.

use serde_json::Value;

use super::compare::Comparison;
use super::extract::extract;
use super::set::Set;
use super::writer::Writer;
use crate::patch::{MAX_DEPTH, fits};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The only manager that goes on where client-side apply was. Others keep their own counsel.
const KUBECTL: &str = "kubectl";

/// How large the annotations of an object may be, names included; the API's limit.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// What client-side apply put into the live object and nobody changed since, when the writer may take that over.
pub(super) fn owned(live: &Value, writer: &Writer<'_>) -> Option<Set> {
    let text = annotation(live).filter(|_| writer.manager == KUBECTL)?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last.get("apiVersion")?.as_str()? != writer.api_version || !fits(&last, MAX_DEPTH) {
        return None;
    }
    let Comparison { removed, modified, added } = Comparison::of(&last, live, writer.shape);
    let set = extract(&last, writer.shape);
    Some(set.difference(&modified).difference(&added).difference(&removed))
}

/// Writes what was applied into the annotation, when there is one, for clients that go back.
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
