//! The strategies of PersistentVolumes and VolumeAttachments.

use crate::dotted::{at, fill, set};
use crate::quantity::Quantity;
use crate::strategy::causes::{Causes, IMMUTABLE};
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};
use crate::strategy::{Json, Part};

use super::claim::{ACCESS_MODES, VOLUME_MODES};

pub(in crate::strategy) static STRATEGY: KindStrategy =
    KindStrategy { default, prepare, check, update, status, ..NO_OP };

/// The fields of PersistentVolumeSource.
const SOURCES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "hostPath",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

fn default(volume: &mut Json) {
    fill(volume, "spec.persistentVolumeReclaimPolicy", "Retain");
    fill(volume, "spec.volumeMode", "Filesystem");
    if let Some(host_path) = crate::dotted::object_at(volume, "spec.hostPath") {
        host_path.entry("type").or_insert_with(|| "".into());
    }
    if at(volume, "spec.claimRef").is_some() {
        fill(volume, "spec.claimRef.apiVersion", "v1");
        fill(volume, "spec.claimRef.kind", "PersistentVolumeClaim");
    }
}

fn prepare(volume: &mut Json, before: Option<&Json>, part: &Part<'_>) {
    if before.is_none() && *part == Part::Main {
        set(volume, "status.phase", Some("Pending".into()));
    }
}

fn check(volume: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = volume.at("spec");
    let modes = spec.at("accessModes");
    if causes.required(&modes, "") {
        modes.items().for_each(|mode| causes.one_of(&mode, &ACCESS_MODES));
    }
    if modes.len() > 1 && modes.items().any(|mode| mode.text() == "ReadWriteOncePod") {
        causes.forbidden(&modes, "may not use ReadWriteOncePod with other access modes");
    }
    let capacity = spec.at("capacity");
    if causes.required(&capacity, "") {
        let size = capacity.at("storage");
        if size.is_absent() || capacity.fields().is_some_and(|fields| fields.len() > 1) {
            causes.push(crate::strategy::Cause::not_supported(capacity.path(), "", &["storage"]));
        }
        if size.text().parse::<Quantity>().is_ok_and(|size| size <= Quantity::ZERO) {
            causes.invalid(&size, "must be greater than zero");
        }
    }
    causes.any_of(&spec.at("persistentVolumeReclaimPolicy"), &["Delete", "Recycle", "Retain"]);
    causes.any_of(&spec.at("volumeMode"), &VOLUME_MODES);
    causes.subdomain(&spec.at("storageClassName"));
    let mut sources = SOURCES.iter().filter(|source| !spec.at(source).is_absent());
    match (sources.next(), sources.next()) {
        (None, _) => causes.missing(&spec, "must specify a volume type"),
        (Some(_), Some(more)) => causes.forbidden(&spec.at(more), "may not specify more than 1 volume type"),
        (Some(one), None) => source(one, &spec, causes),
    }
}

/// Requires the mandatory fields of a volume source.
fn source(kind: &str, spec: &FieldValue<'_, '_>, causes: &mut Causes) {
    let source = spec.at(kind);
    let needed: &[&str] = match kind {
        "csi" => &["driver", "volumeHandle"],
        "hostPath" | "local" => &["path"],
        "nfs" => &["server", "path"],
        "iscsi" => &["targetPortal", "iqn"],
        "rbd" => &["monitors", "image"],
        "cephfs" => &["monitors"],
        _ => &[],
    };
    for field in needed {
        causes.required(&source.at(field), "");
    }
    if matches!(kind, "hostPath" | "local" | "nfs") {
        let has_parent_element = |path: &str| !path.split('/').any(|part| part == "..");
        causes.text(&source.at("path"), has_parent_element, "must not contain '..'");
    }
    if kind == "local" && spec.at("nodeAffinity").is_absent() {
        causes.missing(&spec.at("nodeAffinity"), "Local volume requires node affinity");
    }
}

fn update(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    let (new, old) = (new.at("spec"), old.at("spec"));
    if SOURCES.iter().any(|source| new.at(source).value() != old.at(source).value()) {
        let why = "spec.persistentvolumesource is immutable after creation";
        causes.push(crate::strategy::Cause::forbidden("spec.persistentvolumesource", why));
    }
    if new.at("volumeMode").value() != old.at("volumeMode").value() {
        causes.invalid(&new.at("volumeMode"), IMMUTABLE);
    }
    if !old.at("nodeAffinity").is_absent() {
        causes.unchanged(&new.at("nodeAffinity"), &old.at("nodeAffinity"));
    }
}

fn status(new: &FieldValue<'_, '_>, _old: &FieldValue<'_, '_>, causes: &mut Causes) {
    let phases = ["Pending", "Available", "Bound", "Released", "Failed"];
    causes.any_of(&new.at("status.phase"), &phases);
}

/// The strategy of VolumeAttachments.
pub(in crate::strategy) static ATTACHMENT: KindStrategy = KindStrategy {
    check: |attachment, causes| {
        let spec = attachment.at("spec");
        causes.required(&spec.at("attacher"), "");
        causes.required(&spec.at("nodeName"), "");
        let source = spec.at("source");
        let (name, inline) = (source.at("persistentVolumeName"), source.at("inlineVolumeSpec"));
        match (name.is_empty(), inline.is_absent()) {
            (true, true) => causes
                .missing(&source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"),
            (false, false) => {
                causes.invalid(
                    &source,
                    "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                );
            }
            _ => {}
        }
    },
    immutable: &["spec"],
    ..NO_OP
};
