//! The StorageObjectInUseProtection plugin: new claims and volumes get the finalizers that keep them while they are in
//! use.

use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::pods::field;
use crate::controllers::{CLAIM_PROTECTION, VOLUME_PROTECTION};

/// The stock plugin `StorageObjectInUseProtection`.
#[derive(Clone, Copy, Debug)]
pub struct StorageObjectInUseProtection;

/// The finalizer of a resource.
fn finalizer(attempt: &AdmissionRequest<'_>) -> Option<&'static str> {
    if attempt.is_of("persistentvolumeclaims") {
        Some(CLAIM_PROTECTION)
    } else if attempt.is_of("persistentvolumes") {
        Some(VOLUME_PROTECTION)
    } else {
        None
    }
}

/// Adds a finalizer, unless the object has it.
fn add(metadata: &mut api::strategy::Json, finalizer: &str) {
    let all = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if all.is_null() {
        *all = json!([]);
    }
    if let Value::Array(all) = all
        && !all.iter().any(|own| own == finalizer)
    {
        all.push(finalizer.into());
    }
}

#[async_trait]
impl Admission for StorageObjectInUseProtection {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let is_new = attempt.operation == Operation::Create && attempt.subresource.is_none();
        if let Some(finalizer) = finalizer(attempt).filter(|_| is_new)
            && let Some(metadata) = field(&mut attempt.object, "metadata")
        {
            add(metadata, finalizer);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the finalizers of new objects.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_finalizer_is_added_once_and_others_stay() {
        for (before, after) in [
            (json!({}), json!({"finalizers": ["p"]})),
            (json!({"finalizers": null}), json!({"finalizers": ["p"]})),
            (json!({"finalizers": ["x"]}), json!({"finalizers": ["x", "p"]})),
            (json!({"finalizers": ["p", "x"]}), json!({"finalizers": ["p", "x"]})),
        ] {
            let mut metadata = before.as_object().unwrap().clone();
            add(&mut metadata, "p");
            assert_eq!(Value::Object(metadata), after);
        }
    }
}
