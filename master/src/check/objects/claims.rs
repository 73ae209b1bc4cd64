//! Checks PersistentVolumeClaims without a volume, which block their pods. Pure.

use std::collections::HashMap;

use super::{PATIENCE, World};
use crate::check::finding::{Finding, Subject};
use crate::objects::volume::{PersistentVolumeClaim, StorageClass};

/// Findings for all claims.
pub fn findings(world: &World) -> Vec<Finding> {
    let classes: HashMap<&str, &StorageClass> =
        world.lists.storage_classes.iter().map(|class| (&*class.metadata.name, class)).collect();
    let claims = world.lists.persistent_volume_claims.iter().filter(|claim| !claim.metadata.is_terminating());
    let is_late = |claim: &PersistentVolumeClaim| world.since(claim.metadata.creation_timestamp) > PATIENCE;
    claims.filter_map(|claim| of_claim(&classes, claim, is_late(claim))).collect()
}

fn of_claim(
    classes: &HashMap<&str, &StorageClass>,
    claim: &PersistentVolumeClaim,
    is_late: bool,
) -> Option<Finding> {
    let subject = Subject::of("PersistentVolumeClaim", &claim.metadata);
    let class = claim.spec.storage_class_name.as_deref().unwrap_or_default();
    let pending = |remedy: &str| Finding::problem(subject.clone(), "is Pending", remedy);
    match (&*claim.status.phase, classes.get(class)) {
        ("Bound", _) => None,
        ("Lost", _) => {
            let remedy = "restore the volume, or delete the claim; its data is lost with the volume";
            Some(Finding::problem(subject, "has lost its volume", remedy))
        }
        (_, None) if class.is_empty() => is_late.then(|| {
            pending("create a matching PersistentVolume, or set a storage class")
                .because("it has no storage class, and no volume matches")
        }),
        (_, None) => Some(
            pending("create the storage class, or correct the claim's storageClassName")
                .because(format!("there is no storage class {class}")),
        ),
        // The claim waits for its first consumer, as intended.
        (_, Some(class)) if &*class.volume_binding_mode == "WaitForFirstConsumer" => None,
        (_, Some(of)) => is_late.then(|| {
            pending("check that the provisioner runs, and see the events of the claim")
                .because(format!("{} of the class {class} has created no volume", of.provisioner))
        }),
    }
}
