//! Claims that have no volume: pods that use them wait. Pure.

use std::collections::HashMap;

use super::field::text;
use super::{PATIENCE, World};
use crate::check::finding::{Finding, Subject};
use crate::controllers::Object;

/// What is wrong with claims.
pub fn findings(world: &World) -> Vec<Finding> {
    let classes: HashMap<&str, &Object> =
        world.of("storageclasses").iter().map(|class| (class.name.as_str(), class)).collect();
    let claims = world.of("persistentvolumeclaims").iter().filter(|claim| !claim.is_ending);
    claims.filter_map(|claim| of_claim(&classes, claim, world.since(&claim.created) > PATIENCE)).collect()
}

fn of_claim(classes: &HashMap<&str, &Object>, claim: &Object, is_late: bool) -> Option<Finding> {
    let subject = Subject::of("PersistentVolumeClaim", claim);
    let class = text(claim, "/spec/storageClassName");
    let pending = |remedy: &str| Finding::problem(subject.clone(), "is Pending", remedy);
    match (text(claim, "/status/phase"), classes.get(class)) {
        ("Bound", _) => None,
        ("Lost", _) => {
            let remedy = "bring the volume back, or delete the claim; what was on it is gone with it";
            Some(Finding::problem(subject, "has lost its volume", remedy))
        }
        (_, None) if class.is_empty() => is_late.then(|| {
            pending("make a PersistentVolume that fits, or name a storage class")
                .because("it names no storage class, and no volume is there that fits")
        }),
        (_, None) => Some(
            pending("make the storage class, or correct the claim's storageClassName")
                .because(format!("there is no storage class {class}")),
        ),
        // It waits for the first pod that uses it, which is how it should be.
        (_, Some(class)) if text(class, "/volumeBindingMode") == "WaitForFirstConsumer" => None,
        (_, Some(of)) => is_late.then(|| {
            pending("look whether that provisioner runs, and at the events of the claim")
                .because(format!("{} of the class {class} has made no volume", text(of, "/provisioner")))
        }),
    }
}
