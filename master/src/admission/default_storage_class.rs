//! The DefaultStorageClass plugin: sets the default storage class of new claims.

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use async_trait::async_trait;

use super::lister::Lister;
use super::pods::field;
use crate::objects::volume::{PersistentVolumeClaimSpec, StorageClass};
use crate::objects::{self, AnnotatedObject, Spec};

/// The beta annotation by which claims named their class.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The stock plugin `DefaultStorageClass`.
#[derive(Clone, Debug)]
pub struct DefaultStorageClass {
    lister: Lister,
}

impl DefaultStorageClass {
    /// Creates the plugin, which reads StorageClasses from a lister.
    pub fn new(lister: Lister) -> Self {
        Self { lister }
    }
}

/// Whether the claim has no class. An empty name means that it wants none.
fn is_open(claim: &Json) -> bool {
    let Spec { spec } = objects::read::<Spec<PersistentVolumeClaimSpec>>(claim);
    let AnnotatedObject { metadata } = objects::read(claim);
    spec.storage_class_name.is_none() && !metadata.annotations.contains_key(OLD_CLASS)
}

/// The default class. If several are marked, it is the newest.
fn default_class(classes: &[StorageClass]) -> Option<&str> {
    let default = classes.iter().filter(|class| class.is_default()).map(|class| &class.metadata);
    // Among classes of the same age, the first name wins.
    let newest = default.max_by_key(|class| (class.creation_timestamp, std::cmp::Reverse(&class.name)))?;
    Some(&newest.name)
}

#[async_trait]
impl Admission for DefaultStorageClass {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let is_new = attempt.is_of("persistentvolumeclaims")
            && attempt.operation == Operation::Create
            && attempt.subresource.is_none();
        if is_new && is_open(&attempt.object) {
            let classes: Vec<StorageClass> = self.lister.list("storageclasses.storage.k8s.io", None);
            if let (Some(class), Some(spec)) = (default_class(&classes), field(&mut attempt.object, "spec")) {
                spec.insert("storageClassName".to_owned(), class.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the storage class set on a claim.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_default_class_is_taken_by_claims_that_leave_it_open() {
        let class = |name: &str, default: &str, created: &str| {
            let class = json!({"metadata": {"name": name, "creationTimestamp": created,
                "annotations": {"storageclass.kubernetes.io/is-default-class": default}}});
            serde_json::from_value::<StorageClass>(class).unwrap()
        };
        let classes = [
            class("old", "true", "2025-01-01T00:00:00Z"),
            class("b", "true", "2026-01-01T00:00:00Z"),
            class("a", "true", "2026-01-01T00:00:00Z"),
            class("no", "false", "2027-01-01T00:00:00Z"),
        ];
        assert_eq!(default_class(&classes), Some("a"));
        assert_eq!(default_class(&classes[3..]), None);
        for (claim, expected) in [
            (json!({"spec": {}}), true),
            (json!({"spec": {"storageClassName": ""}}), false),
            (json!({"spec": {}, "metadata": {"annotations": {OLD_CLASS: "x"}}}), false),
        ] {
            assert_eq!(is_open(claim.as_object().unwrap()), expected, "{claim}");
        }
    }
}
