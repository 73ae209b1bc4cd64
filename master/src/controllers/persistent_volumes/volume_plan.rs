//! Plans the next step of a volume: its phase, and how it is reclaimed. Pure; rules and messages are those of the
//! stock PV controller.

use super::{Notice, local_path};
use crate::objects::volume::{PersistentVolume, PersistentVolumeClaim};

/// The next step for a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeStep {
    Nothing,
    /// Set this phase.
    Phase(&'static str),
    /// The volume is reserved for a claim that is not bound yet: reconcile the claim.
    ReconcileClaim,
    /// The claim has another volume: free this one. The reference to the claim is removed if the controller wrote
    /// it, otherwise only its UID.
    Unbind {
        keeps_name: bool,
    },
    /// The volume cannot be reclaimed: set the phase `Failed`.
    Fail(Notice),
    /// Delete the data of a `local-path` volume, then the volume.
    DeleteLocal,
    /// Complete the deletion of a `local-path` volume by a user without deleting its data.
    Abandon,
}

/// Plans the next step of a volume. `claim` is the live claim with the name in the volume's reference, if it exists.
pub fn plan(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> VolumeStep {
    let Some(reference) = volume.spec.claim_ref.as_ref().filter(|reference| !reference.uid.is_empty()) else {
        return if is_abandoned(volume) { VolumeStep::Abandon } else { phase(volume, "Available") };
    };
    let Some(claim) = claim.filter(|claim| claim.metadata.uid == reference.uid) else {
        return if is_abandoned(volume) { VolumeStep::Abandon } else { release(volume) };
    };
    if claim.spec.volume_name == volume.metadata.name {
        phase(volume, "Bound")
    } else if claim.spec.volume_name.is_empty() {
        VolumeStep::ReconcileClaim
    } else if is_provisioned(volume) && policy(volume) == "Delete" {
        // It was created for this claim, and no other claim may get it.
        release(volume)
    } else {
        VolumeStep::Unbind { keeps_name: volume.metadata.annotations.bound_by_controller.is_none() }
    }
}

/// Whether a user has deleted a `local-path` volume that has no claim, or whose policy keeps the data.
fn is_abandoned(volume: &PersistentVolume) -> bool {
    let is_local = volume.metadata.annotations.provisioned_by.as_deref() == Some(local_path::PROVISIONER);
    let keeps_data = volume.spec.claim_ref.is_none() || policy(volume) != "Delete";
    volume.metadata.is_terminating() && is_local && keeps_data
}

fn phase(volume: &PersistentVolume, phase: &'static str) -> VolumeStep {
    if *volume.status.phase == *phase { VolumeStep::Nothing } else { VolumeStep::Phase(phase) }
}

fn is_provisioned(volume: &PersistentVolume) -> bool {
    volume.metadata.annotations.provisioned_by.is_some()
}

fn policy(volume: &PersistentVolume) -> &str {
    &volume.spec.persistent_volume_reclaim_policy
}

/// The step for a volume whose claim is gone: first the phase, then the reclaim policy.
fn release(volume: &PersistentVolume) -> VolumeStep {
    let is_failed = match &*volume.status.phase {
        "Released" => false,
        "Failed" => true,
        _ => return VolumeStep::Phase("Released"),
    };
    let fail = |reason, message: &str| {
        if is_failed { VolumeStep::Nothing } else { VolumeStep::Fail(Notice::warning(reason, message)) }
    };
    match (policy(volume), volume.metadata.annotations.provisioned_by.as_deref()) {
        ("Delete", Some(local_path::PROVISIONER)) => VolumeStep::DeleteLocal,
        // The provisioner outside this process deletes its volumes.
        ("Delete", Some(_)) => VolumeStep::Nothing,
        ("Delete", None) => fail(
            "VolumeFailedDelete",
            "no provisioner has created the volume, so none can delete its data: delete data and volume by hand",
        ),
        ("Recycle", _) => fail("VolumeFailedRecycle", "No recycler plugin found for the volume!"),
        _ => VolumeStep::Nothing,
    }
}
