//! Printer columns of storage classes, CSI kinds and VolumeAttachments.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Columns, NAME, Object, age, at, field, flag, list, name, number, or_unset, plain, shown, text,
    text_at,
};

/// The printer columns of StorageClasses.
pub const STORAGE_CLASSES: Columns = Columns {
    heads: &[
        NAME,
        shown("Provisioner", "The provisioner of volumes."),
        shown("ReclaimPolicy", "The policy for volumes when the claim is deleted."),
        shown("VolumeBindingMode", "When claims are bound."),
        flag("AllowVolumeExpansion", "Whether volumes can be expanded."),
        AGE,
    ],
    cells: storage_class,
};

/// The printer columns of VolumeAttributesClasses.
pub const ATTRIBUTES_CLASSES: Columns = Columns {
    heads: &[NAME, shown("DriverName", "The driver of the class."), AGE],
    cells: |object, now| {
        let named = named(object, &["volumeattributesclass.alpha.kubernetes.io/is-default-class"]);
        vec![named, top(object, "driverName").into(), age::of(object, now)]
    },
};

/// The printer columns of CSINodes.
pub const CSI_NODES: Columns = Columns {
    heads: &[NAME, number("Drivers", "The number of drivers on the node."), AGE],
    cells: |object, now| {
        vec![name(object), list(object, "spec", "drivers").len().into(), age::of(object, now)]
    },
};

/// The printer columns of CSIDrivers.
pub const CSI_DRIVERS: Columns = Columns {
    heads: &[
        NAME,
        flag("AttachRequired", "Whether volumes must be attached before mounting."),
        flag("PodInfoOnMount", "Whether the driver receives pod information."),
        flag("StorageCapacity", "Whether the driver reports storage capacity."),
        shown("TokenRequests", "The audiences of the pod's tokens for the driver."),
        flag("RequiresRepublish", "Whether volumes are republished periodically."),
        shown("Modes", "The volume lifecycle modes."),
        AGE,
    ],
    cells: csi_driver,
};

/// The printer columns of CSIStorageCapacities.
pub const STORAGE_CAPACITIES: Columns = Columns {
    heads: &[
        NAME,
        shown("StorageClassName", "The storage class."),
        shown("Capacity", "The available capacity."),
    ],
    cells: |object, _| {
        vec![name(object), top(object, "storageClassName").into(), top(object, "capacity").into()]
    },
};

/// The printer columns of VolumeAttachments.
pub const ATTACHMENTS: Columns = Columns {
    heads: &[
        NAME,
        shown("Attacher", "The driver that attaches the volume."),
        shown("PV", "The volume."),
        shown("Node", "The node."),
        flag("Attached", "Whether the volume is attached."),
        AGE,
    ],
    cells: attachment,
};

fn top<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The name, with `(default)` for the default class.
fn named(object: &Object, annotations: &[&str]) -> Value {
    let is_default = |name: &&str| text_at(object, &["metadata", "annotations", name]) == "true";
    let name = text(object, "metadata", "name");
    if annotations.iter().any(is_default) { format!("{name} (default)").into() } else { name.into() }
}

fn storage_class(object: &Object, now: Timestamp) -> Vec<Value> {
    let or = |field: &str, usual: &str| match top(object, field) {
        "" => Value::from(usual),
        value => value.into(),
    };
    let annotations =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    vec![
        named(object, &annotations),
        top(object, "provisioner").into(),
        or("reclaimPolicy", "Delete"),
        or("volumeBindingMode", "Immediate"),
        (object.get("allowVolumeExpansion").and_then(Value::as_bool) == Some(true)).into(),
        age::of(object, now),
    ]
}

fn csi_driver(object: &Object, now: Timestamp) -> Vec<Value> {
    let is = |field: &str, usual: bool| {
        Value::from(at(object, &["spec", field]).and_then(Value::as_bool).unwrap_or(usual))
    };
    let tokens: Vec<&str> =
        list(object, "spec", "tokenRequests").iter().map(|request| field(request, "audience")).collect();
    let modes: Vec<String> = list(object, "spec", "volumeLifecycleModes").iter().map(plain).collect();
    let modes = if modes.is_empty() { "Persistent".to_owned() } else { modes.join(",") };
    vec![
        name(object),
        is("attachRequired", true),
        is("podInfoOnMount", false),
        is("storageCapacity", false),
        or_unset(&tokens.join(",")),
        is("requiresRepublish", false),
        modes.into(),
        age::of(object, now),
    ]
}

fn attachment(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text(object, "spec", "attacher").into(),
        text_at(object, &["spec", "source", "persistentVolumeName"]).into(),
        text(object, "spec", "nodeName").into(),
        (at(object, &["status", "attached"]).and_then(Value::as_bool) == Some(true)).into(),
        age::of(object, now),
    ]
}
