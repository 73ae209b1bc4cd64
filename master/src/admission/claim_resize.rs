//! The PersistentVolumeClaimResize plugin: rejects the expansion of claims whose storage class does not allow it.

use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use async_trait::async_trait;

use super::lister::Lister;
use super::pods::forbidden;
use crate::objects::{self, volume::PersistentVolumeClaim, volume::StorageClass};

/// The stock plugin `PersistentVolumeClaimResize`.
#[derive(Clone, Debug)]
pub struct PersistentVolumeClaimResize {
    lister: Lister,
}

impl PersistentVolumeClaimResize {
    /// Creates the plugin, which reads StorageClasses from a lister.
    pub fn new(lister: Lister) -> Self {
        Self { lister }
    }
}

/// Why a claim may not change from `old` to `new`, in the words of the stock plugin. `None` if it may.
fn refusal(
    old: &PersistentVolumeClaim,
    new: &PersistentVolumeClaim,
    class: impl FnOnce(&str) -> Option<StorageClass>,
) -> Option<&'static str> {
    if new.requested() <= old.requested() {
        return None;
    }
    if &*old.status.phase != "Bound" {
        return Some("Only bound persistent volume claims can be expanded");
    }
    let is_allowed = !old.class().is_empty()
        && old.class() == new.class()
        && class(new.class()).is_some_and(|class| class.allow_volume_expansion);
    (!is_allowed).then_some(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    )
}

#[async_trait]
impl Admission for PersistentVolumeClaimResize {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_update = attempt.is_of("persistentvolumeclaims")
            && attempt.operation == Operation::Update
            && attempt.subresource.is_none();
        let Some(old) = attempt.old.filter(|_| is_update) else { return Ok(()) };
        let (old, new) = (objects::read(old), objects::read(&attempt.object));
        let class = |name: &str| self.lister.get("storageclasses.storage.k8s.io", "", name);
        refusal(&old, &new, class).map_or(Ok(()), |why| Err(forbidden(attempt, why)))
    }
}

#[cfg(test)]
mod tests {
    //! Tests of claims that are expanded.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn claim(size: &str, class: &str, phase: &str) -> PersistentVolumeClaim {
        serde_json::from_value(json!({
            "spec": {"resources": {"requests": {"storage": size}}, "storageClassName": class}, "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[test]
    fn a_claim_grows_only_if_it_is_bound_and_its_class_allows_it() {
        let class = |name: &str| {
            let allows = name == "grows";
            (name != "gone").then(|| serde_json::from_value(json!({"allowVolumeExpansion": allows})).unwrap())
        };
        for (old, size, expected) in [
            (claim("1Gi", "grows", "Bound"), "2Gi", None),
            (claim("1Gi", "fixed", "Bound"), "1Gi", None),
            (claim("1Gi", "fixed", "Bound"), "1024Mi", None),
            (claim("1Gi", "fixed", "Bound"), "2Gi", Some("only dynamically")),
            (claim("1Gi", "gone", "Bound"), "2Gi", Some("only dynamically")),
            (claim("1Gi", "", "Bound"), "2Gi", Some("only dynamically")),
            (claim("1Gi", "grows", "Pending"), "2Gi", Some("Only bound")),
        ] {
            let new = claim(size, old.class(), &old.status.phase);
            let found = refusal(&old, &new, class);
            assert_eq!(found.map(|why| why.starts_with(expected.unwrap_or("?"))), expected.map(|_| true));
        }
    }
}
