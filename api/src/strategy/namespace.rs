//! The strategy of Namespaces.

use serde_json::Value;

use super::causes::Causes;
use super::dotted::{at, fields_at, set, text};
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};
use super::{Json, Part};

pub(super) static STRATEGY: KindStrategy = KindStrategy { default, prepare, check, status, ..NO_OP };

/// The label with the namespace's name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer that keeps a namespace until its objects are deleted.
const FINALIZER: &str = "kubernetes";

fn default(namespace: &mut Json) {
    let name = text(namespace, "metadata.name").to_owned();
    if name.is_empty() {
        return;
    }
    if let Some(labels) = fields_at(namespace, "metadata.labels") {
        labels.insert(NAME_LABEL.to_owned(), name.into());
    }
}

/// Keeps finalizers and status on updates, because only subresources change them.
fn prepare(namespace: &mut Json, before: Option<&Json>, part: &Part<'_>) {
    match (part, before) {
        (Part::Main, None) => {
            set(namespace, "status", None);
            set(namespace, "status.phase", Some("Active".into()));
            let mut finalizers =
                at(namespace, "spec.finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
            if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
                finalizers.push(FINALIZER.into());
            }
            set(namespace, "spec.finalizers", Some(finalizers.into()));
        }
        (Part::Main, Some(before)) => {
            set(namespace, "spec.finalizers", at(before, "spec.finalizers").cloned());
            set(namespace, "status", before.get("status").cloned());
        }
        (Part::Sub("finalize"), Some(before)) => set(namespace, "status", before.get("status").cloned()),
        (Part::Status | Part::Sub(_), _) => {}
    }
}

fn check(namespace: &FieldValue<'_, '_>, causes: &mut Causes) {
    for finalizer in namespace.at("spec.finalizers").items() {
        causes.qualified_name(&finalizer);
    }
}

fn status(new: &FieldValue<'_, '_>, _old: &FieldValue<'_, '_>, causes: &mut Causes) {
    let phase = new.at("status.phase");
    let is_going = !new.at("metadata.deletionTimestamp").is_absent();
    match phase.text() {
        "Active" if is_going => {
            causes.invalid(&phase, "may only be 'Terminating' if `deletionTimestamp` is not empty");
        }
        "Terminating" if !is_going => {
            causes.invalid(&phase, "may only be 'Active' if `deletionTimestamp` is empty");
        }
        _ => {}
    }
}
