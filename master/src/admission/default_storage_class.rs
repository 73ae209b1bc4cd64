//! The DefaultStorageClass plugin: sets the default storage class of new claims.

use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use async_trait::async_trait;

use super::lister::Lister;
use super::pods::field;
use crate::objects;
use crate::objects::volume::{PersistentVolumeClaim, StorageClass};

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

#[async_trait]
impl Admission for DefaultStorageClass {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let is_new = attempt.is_of("persistentvolumeclaims")
            && attempt.operation == Operation::Create
            && attempt.subresource.is_none();
        if is_new && objects::read::<PersistentVolumeClaim>(&attempt.object).wants_default_class() {
            let classes: Vec<StorageClass> = self.lister.list("storageclasses.storage.k8s.io", None);
            if let (Some(class), Some(spec)) =
                (StorageClass::default_of(&classes), field(&mut attempt.object, "spec"))
            {
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
    fn claim_without_a_class_gets_the_newest_default_class() {
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
        assert_eq!(StorageClass::default_of(&classes), Some("a"));
        assert_eq!(StorageClass::default_of(&classes[3..]), None);
        for (claim, expected) in [
            (json!({"spec": {}}), true),
            (json!({"spec": {"storageClassName": ""}}), false),
            (
                json!({"spec": {}, "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}}),
                false,
            ),
        ] {
            let read = objects::read::<PersistentVolumeClaim>(claim.as_object().unwrap());
            assert_eq!(read.wants_default_class(), expected, "{claim}");
        }
    }
}
