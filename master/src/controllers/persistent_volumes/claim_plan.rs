//! Plans the next step of a claim: which volume it gets, or why it has none. Pure; rules and messages are those of
//! the stock PV controller.

use super::{Notice, local_path};
use crate::objects::volume::{PersistentVolume, PersistentVolumeClaim, StorageClass};

/// The next step for a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimStep<'a> {
    /// Bind the claim and this volume. Writes that are already done are omitted.
    Bind(&'a PersistentVolume),
    /// The claim stays Pending, with an event if there is something to report.
    Wait(Option<Notice>),
    /// The claim was bound, and its volume is lost.
    Lost(Notice),
    /// A provisioner outside this process creates the volume: write its name into the claim.
    Announce(&'a str),
    /// Set this default class, which was created after the claim.
    SetClass(&'a str),
    /// Create a `local-path` volume on this node.
    Provision { node: &'a str, class: &'a StorageClass },
}

/// A claim and the objects that decide about it.
#[derive(Clone, Copy, Debug)]
pub struct ClaimInput<'a> {
    pub claim: &'a PersistentVolumeClaim,
    /// The live volume that the claim names, if it names one that exists.
    pub named: Option<&'a PersistentVolume>,
    /// All volumes.
    pub volumes: &'a [&'a PersistentVolume],
    /// The storage class of the claim, if it has one that exists.
    pub class: Option<&'a StorageClass>,
    /// The name of the default class, if there is one.
    pub default_class: Option<&'a str>,
}

/// Plans the next step of a claim.
pub fn plan<'a>(input: &ClaimInput<'a>) -> ClaimStep<'a> {
    if input.claim.metadata.annotations.bind_completed.is_some() {
        return plan_bound(input);
    }
    if input.claim.metadata.is_terminating() {
        return ClaimStep::Wait(None);
    }
    if input.claim.spec.volume_name.is_empty() { plan_unbound(input) } else { plan_named(input) }
}

/// A claim that was bound before.
fn plan_bound<'a>(&ClaimInput { claim, named, .. }: &ClaimInput<'a>) -> ClaimStep<'a> {
    let lost = |reason, message: &str| ClaimStep::Lost(Notice::warning(reason, message));
    if claim.spec.volume_name.is_empty() {
        return lost(
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        );
    }
    match named {
        None => lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"),
        Some(volume) if volume.spec.claim_ref.is_none() || volume.is_claimed_by(claim) => {
            ClaimStep::Bind(volume)
        }
        Some(_) => {
            lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
        }
    }
}

/// A claim without a volume: the smallest one that fits, or a new one.
fn plan_unbound<'a>(input: &ClaimInput<'a>) -> ClaimStep<'a> {
    let &ClaimInput { claim, volumes, class, default_class, .. } = input;
    let waits_for_consumer = class.is_some_and(StorageClass::waits_for_consumer);
    if let Some(volume) = best_match(claim, volumes, waits_for_consumer) {
        return ClaimStep::Bind(volume);
    }
    if waits_for_consumer && claim.metadata.annotations.selected_node.is_none() {
        let message = "waiting for first consumer to be created before binding";
        return ClaimStep::Wait(Some(Notice::normal("WaitForFirstConsumer", message)));
    }
    match class {
        None if claim.class().is_empty() => {
            if let Some(default) = default_class.filter(|_| claim.wants_default_class()) {
                return ClaimStep::SetClass(default);
            }
            let message = "no persistent volumes available for this claim and no storage class is set";
            ClaimStep::Wait(Some(Notice::normal("FailedBinding", message)))
        }
        None => failed(format!("storageclass.storage.k8s.io \"{}\" not found", claim.class())),
        Some(class) if !class.has_provisioner() => {
            failed(format!("no volume plugin matched name: {}", class.provisioner))
        }
        Some(class) if &*class.provisioner == local_path::PROVISIONER => plan_local(claim, class),
        Some(class) => ClaimStep::Announce(&class.provisioner),
    }
}

/// A claim for which a `local-path` volume has to be created.
fn plan_local<'a>(claim: &'a PersistentVolumeClaim, class: &'a StorageClass) -> ClaimStep<'a> {
    let name = &class.metadata.name;
    if claim.volume_mode() != "Filesystem" {
        return failed(format!(
            "the storage class \"{name}\" has no block volumes: set volumeMode Filesystem"
        ));
    }
    if !claim.is_for_one_node() {
        return failed(format!(
            "a volume of the storage class \"{name}\" is on one node: set the access mode ReadWriteOnce or \
             ReadWriteOncePod"
        ));
    }
    match &claim.metadata.annotations.selected_node {
        Some(node) => ClaimStep::Provision { node, class },
        None => failed(format!(
            "a volume of the storage class \"{name}\" is created on the node of its first pod: set volumeBindingMode \
             WaitForFirstConsumer in the storage class"
        )),
    }
}

fn failed<'a>(message: String) -> ClaimStep<'a> {
    ClaimStep::Wait(Some(Notice::warning("ProvisioningFailed", message)))
}

/// A claim for which a user or the scheduler has chosen the volume.
fn plan_named<'a>(&ClaimInput { claim, named, .. }: &ClaimInput<'a>) -> ClaimStep<'a> {
    let Some(volume) = named else { return ClaimStep::Wait(None) };
    let name = &volume.metadata.name;
    if volume.is_claimed_by(claim) {
        return ClaimStep::Bind(volume);
    }
    if volume.spec.claim_ref.is_some() {
        let message = format!("volume \"{name}\" already bound to a different claim.");
        return ClaimStep::Wait(Some(Notice::warning("FailedBinding", message)));
    }
    match volume.mismatch(claim) {
        Some(why) => {
            let message = format!("Cannot bind to requested volume \"{name}\": {why}");
            ClaimStep::Wait(Some(Notice::warning("VolumeMismatch", message)))
        }
        None if volume.metadata.is_terminating() => ClaimStep::Wait(None),
        None => ClaimStep::Bind(volume),
    }
}

/// The volume for a claim: one that is reserved for it, otherwise the smallest free one that fits. A claim whose class
/// waits for the first consumer gets only a reserved one, because the scheduler knows which volumes its node can mount.
fn best_match<'a>(
    claim: &PersistentVolumeClaim,
    volumes: &[&'a PersistentVolume],
    waits_for_consumer: bool,
) -> Option<&'a PersistentVolume> {
    let order = |volume: &&PersistentVolume| (volume.size(), volume.metadata.name.clone());
    let is_reserved = |volume: &&PersistentVolume| {
        volume.is_claimed_by(claim) && !volume.metadata.is_terminating() && volume.mismatch(claim).is_none()
    };
    let reserved = volumes.iter().copied().filter(is_reserved).min_by_key(order);
    let free = || volumes.iter().copied().filter(|volume| volume.is_available_for(claim)).min_by_key(order);
    reserved.or_else(|| if waits_for_consumer { None } else { free() })
}
