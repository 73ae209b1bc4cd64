//! Printer columns of PersistentVolumes and PersistentVolumeClaims.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, Columns, NAME, Object, age, list, name, or_unset, plain, shown, text, text_at, wide,
};

/// The annotation that named the storage class before there was a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const CAPACITY: Column = shown("Capacity", "The storage capacity.");
const ACCESS_MODES: Column = shown("Access Modes", "The access modes.");
const CLASS: Column = shown("StorageClass", "The storage class.");
const ATTRIBUTES_CLASS: Column = shown("VolumeAttributesClass", "The volume attributes class.");
const VOLUME_MODE: Column = wide("VolumeMode", "The volume mode.");

/// The printer columns of PersistentVolumes.
pub const VOLUMES: Columns = Columns {
    heads: &[
        NAME,
        CAPACITY,
        ACCESS_MODES,
        shown("Reclaim Policy", "The policy when the claim is deleted."),
        shown("Status", "The phase of the volume."),
        shown("Claim", "The bound claim."),
        CLASS,
        ATTRIBUTES_CLASS,
        shown("Reason", "The reason for the status."),
        AGE,
        VOLUME_MODE,
    ],
    cells: volume,
};

/// The printer columns of PersistentVolumeClaims.
pub const VOLUME_CLAIMS: Columns = Columns {
    heads: &[
        NAME,
        shown("Status", "The phase of the claim."),
        shown("Volume", "The bound volume."),
        CAPACITY,
        ACCESS_MODES,
        CLASS,
        ATTRIBUTES_CLASS,
        AGE,
        VOLUME_MODE,
    ],
    cells: claim,
};

fn volume(object: &Object, now: Timestamp) -> Vec<Value> {
    let claim = match text_at(object, &["spec", "claimRef", "name"]) {
        "" => String::new(),
        name => format!("{}/{name}", text_at(object, &["spec", "claimRef", "namespace"])),
    };
    vec![
        name(object),
        text_at(object, &["spec", "capacity", "storage"]).into(),
        access_modes(list(object, "spec", "accessModes")).into(),
        text(object, "spec", "persistentVolumeReclaimPolicy").into(),
        phase(object).into(),
        claim.into(),
        class(object).into(),
        or_unset(text(object, "spec", "volumeAttributesClassName")),
        text(object, "status", "reason").into(),
        age::of(object, now),
        or_unset(text(object, "spec", "volumeMode")),
    ]
}

fn claim(object: &Object, now: Timestamp) -> Vec<Value> {
    let volume = text(object, "spec", "volumeName");
    // Capacity and access modes are known only after binding.
    let (modes, capacity) = match volume {
        "" => (String::new(), ""),
        _ => {
            let modes = access_modes(list(object, "status", "accessModes"));
            (modes, text_at(object, &["status", "capacity", "storage"]))
        }
    };
    vec![
        name(object),
        phase(object).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(object).into(),
        or_unset(text(object, "spec", "volumeAttributesClassName")),
        age::of(object, now),
        or_unset(text(object, "spec", "volumeMode")),
    ]
}

fn phase(object: &Object) -> &str {
    match text(object, "metadata", "deletionTimestamp") {
        "" => text(object, "status", "phase"),
        _ => "Terminating",
    }
}

fn class(object: &Object) -> &str {
    match text_at(object, &["metadata", "annotations", CLASS_ANNOTATION]) {
        "" => text(object, "spec", "storageClassName"),
        class => class,
    }
}

/// Access modes in the usual order.
fn access_modes(modes: &[Value]) -> String {
    let modes: Vec<String> = modes.iter().map(plain).collect();
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let found = short.into_iter().filter(|(mode, _)| modes.iter().any(|found| found == mode));
    found.map(|(_, short)| short).collect::<Vec<_>>().join(",")
}
