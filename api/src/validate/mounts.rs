//! Validates volume mounts and devices.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::containers::Volumes;
use super::names::{local_path, no_parent_element, one_of, required};
use crate::field_error::FieldErrors;
use crate::path::Path;
use crate::schema::nearest;

/// Limit for the volume names that are compared to find a misspelling.
const MAX_COMPARED: usize = 100;

pub(super) fn check(container: &Container, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let mounts_path = &path.field("volumeMounts");
    let mut places = BTreeSet::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = &mounts_path.index(index);
        volume_name(&mount.name, volumes, path, errors);
        if mount.mount_path.is_empty() {
            required(&path.field("mountPath"), "add where the volume appears in the container", errors);
        } else if !places.insert(mount.mount_path.as_str()) {
            let what = format!("two volumes are mounted at `{}`", mount.mount_path);
            errors.add(&path.field("mountPath"), what, "mount each at its own path");
        }
        parts(mount, volumes, path, errors);
        propagation(mount, container, path, errors);
    }
    devices(container, volumes, path, errors);
}

fn volume_name(name: &str, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let path = &path.field("name");
    if name.is_empty() {
        required(path, "add the name of a volume", errors);
    } else if !volumes.contains_key(name) {
        let known = if errors.is_full() { 0 } else { MAX_COMPARED };
        let remedy = match nearest(name, volumes.keys().copied().take(known)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "add it under `spec.volumes`".to_owned(),
        };
        errors.add(path, format!("there is no volume `{name}`"), remedy);
    }
}

fn parts(mount: &VolumeMount, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let sub_path = mount.sub_path.as_deref().filter(|part| !part.is_empty());
    let expression = mount.sub_path_expr.as_deref().filter(|part| !part.is_empty());
    let of_image = volumes.get(mount.name.as_str()).is_some_and(|volume| volume.image.is_some());
    for (part, field) in [(sub_path, "subPath"), (expression, "subPathExpr")] {
        let Some(part) = part else { continue };
        local_path(part, &path.field(field), errors);
        if of_image && field == "subPathExpr" {
            errors.add(&path.field(field), "an image volume does not support it", "remove it");
        }
    }
    if sub_path.is_some() && expression.is_some() {
        errors.add(&path.field("subPathExpr"), "`subPath` is set too", "keep one of them");
    }
}

fn propagation(mount: &VolumeMount, container: &Container, path: &Path<'_>, errors: &mut FieldErrors) {
    let propagation = mount.mount_propagation.as_deref();
    if let Some(propagation) = propagation {
        let path = &path.field("mountPropagation");
        one_of(propagation, &["None", "HostToContainer", "Bidirectional"], path, errors);
        let privileged =
            container.security_context.as_ref().and_then(|context| context.privileged) == Some(true);
        if propagation == "Bidirectional" && !privileged {
            let what = "Bidirectional propagation requires a privileged container";
            errors.add(path, what, "add `securityContext.privileged: true`, or write HostToContainer");
        }
    }
    let Some(recursive) = mount.recursive_read_only.as_deref() else { return };
    let path = &path.field("recursiveReadOnly");
    one_of(recursive, &["Disabled", "IfPossible", "Enabled"], path, errors);
    if matches!(recursive, "IfPossible" | "Enabled") {
        if mount.read_only != Some(true) {
            errors.add(path, "the volume is not mounted read-only", "add `readOnly: true`");
        }
        if propagation.is_some_and(|propagation| propagation != "None") {
            errors.add(path, "`mountPropagation` is set", "remove `mountPropagation`");
        }
    }
}

fn devices(container: &Container, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let path = &path.field("volumeDevices");
    let mounted: BTreeSet<&str> =
        container.volume_mounts.iter().flatten().map(|mount| mount.name.as_str()).collect();
    for (index, device) in container.volume_devices.iter().flatten().enumerate() {
        let path = &path.index(index);
        volume_name(&device.name, volumes, path, errors);
        if device.device_path.is_empty() {
            required(&path.field("devicePath"), "add where the device appears in the container", errors);
        }
        no_parent_element(&device.device_path, &path.field("devicePath"), errors);
        let claimed = volumes
            .get(device.name.as_str())
            .is_none_or(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some());
        if !claimed {
            errors.add(
                &path.field("name"),
                "only volumes of claims can be devices",
                "mount it under `volumeMounts`",
            );
        }
        if mounted.contains(device.name.as_str()) {
            errors.add(&path.field("name"), "the volume is mounted too", "keep one of them");
        }
    }
}
