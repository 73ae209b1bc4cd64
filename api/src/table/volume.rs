//! PersistentVolumes and the claims on them.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, Columns, NAME, Object, age, list, name, or_unset, plain, shown, text, text_at, wide,
};

/// The annotation that named the class before there was a field for it.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const CAPACITY: Column = shown("Capacity", "How much it holds.");
const ACCESS_MODES: Column = shown("Access Modes", "How many may use it, and how.");
const CLASS: Column = shown("StorageClass", "What kind of storage it is.");
const ATTRIBUTES_CLASS: Column = shown("VolumeAttributesClass", "What the storage is told beyond that.");
const VOLUME_MODE: Column = wide("VolumeMode", "Whether it has a file system.");

/// PersistentVolumes.
pub const VOLUMES: Columns = Columns {
    heads: &[
        NAME,
        CAPACITY,
        ACCESS_MODES,
        shown("Reclaim Policy", "What becomes of it when its claim goes."),
        shown("Status", "Whether it is free."),
        shown("Claim", "Whose it is."),
        CLASS,
        ATTRIBUTES_CLASS,
        shown("Reason", "Why it is in that state."),
        AGE,
        VOLUME_MODE,
    ],
    cells: volume,
};

/// PersistentVolumeClaims.
pub const VOLUME_CLAIMS: Columns = Columns {
    heads: &[
        NAME,
        shown("Status", "Whether it has a volume."),
        shown("Volume", "Which one."),
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
    // Until there is a volume, nobody knows what it will be like.
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

/// In the order in which everybody writes them.
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
