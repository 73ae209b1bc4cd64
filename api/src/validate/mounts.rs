//! Where volumes appear in a container.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, VolumeMount};

use super::containers::Volumes;
use super::names::{local_path, no_steps_back, one_of, required};
use crate::fault::Faults;
use crate::path::Path;
use crate::schema::nearest;

pub(super) fn check(container: &Container, volumes: &Volumes<'_>, path: &Path<'_>, faults: &mut Faults) {
    let mounts_path = &path.field("volumeMounts");
    let mut places = BTreeSet::new();
    for (index, mount) in container.volume_mounts.iter().flatten().enumerate() {
        let path = &mounts_path.index(index);
        volume_name(&mount.name, volumes, path, faults);
        if mount.mount_path.is_empty() {
            required(&path.field("mountPath"), "add where the volume appears in the container", faults);
        } else if !places.insert(mount.mount_path.as_str()) {
            let what = format!("two volumes want to appear at `{}`", mount.mount_path);
            faults.add(&path.field("mountPath"), what, "give each its own place");
        }
        parts(mount, volumes, path, faults);
        propagation(mount, container, path, faults);
    }
    devices(container, volumes, path, faults);
}

fn volume_name(name: &str, volumes: &Volumes<'_>, path: &Path<'_>, faults: &mut Faults) {
    let path = &path.field("name");
    if name.is_empty() {
        required(path, "add the name of a volume", faults);
    } else if !volumes.contains_key(name) {
        let remedy = match nearest(name, volumes.keys().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "add it under `spec.volumes`".to_owned(),
        };
        faults.add(path, format!("there is no volume `{name}`"), remedy);
    }
}

fn parts(mount: &VolumeMount, volumes: &Volumes<'_>, path: &Path<'_>, faults: &mut Faults) {
    let sub_path = mount.sub_path.as_deref().filter(|part| !part.is_empty());
    let expression = mount.sub_path_expr.as_deref().filter(|part| !part.is_empty());
    let of_image = volumes.get(mount.name.as_str()).is_some_and(|volume| volume.image.is_some());
    for (part, field) in [(sub_path, "subPath"), (expression, "subPathExpr")] {
        let Some(part) = part else { continue };
        local_path(part, &path.field(field), faults);
        if of_image && field == "subPathExpr" {
            faults.add(&path.field(field), "an image volume has none", "remove it");
        }
    }
    if sub_path.is_some() && expression.is_some() {
        faults.add(&path.field("subPathExpr"), "there is a `subPath`, too", "keep one of them");
    }
}

fn propagation(mount: &VolumeMount, container: &Container, path: &Path<'_>, faults: &mut Faults) {
    let propagation = mount.mount_propagation.as_deref();
    if let Some(propagation) = propagation {
        let path = &path.field("mountPropagation");
        one_of(propagation, &["None", "HostToContainer", "Bidirectional"], path, faults);
        let privileged =
            container.security_context.as_ref().and_then(|context| context.privileged) == Some(true);
        if propagation == "Bidirectional" && !privileged {
            let what = "only a privileged container mounts for its host";
            faults.add(path, what, "add `securityContext.privileged: true`, or write HostToContainer");
        }
    }
    let Some(recursive) = mount.recursive_read_only.as_deref() else { return };
    let path = &path.field("recursiveReadOnly");
    one_of(recursive, &["Disabled", "IfPossible", "Enabled"], path, faults);
    if matches!(recursive, "IfPossible" | "Enabled") {
        if mount.read_only != Some(true) {
            faults.add(path, "the volume is not mounted read-only", "add `readOnly: true`");
        }
        if propagation.is_some_and(|propagation| propagation != "None") {
            faults.add(path, "the mount propagates", "remove `mountPropagation`");
        }
    }
}

fn devices(container: &Container, volumes: &Volumes<'_>, path: &Path<'_>, faults: &mut Faults) {
    let path = &path.field("volumeDevices");
    for (index, device) in container.volume_devices.iter().flatten().enumerate() {
        let path = &path.index(index);
        volume_name(&device.name, volumes, path, faults);
        if device.device_path.is_empty() {
            required(&path.field("devicePath"), "add where the device appears in the container", faults);
        }
        no_steps_back(&device.device_path, &path.field("devicePath"), faults);
        let claimed = volumes
            .get(device.name.as_str())
            .is_none_or(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some());
        if !claimed {
            faults.add(
                &path.field("name"),
                "only a claim's volume is a device",
                "mount it under `volumeMounts`",
            );
        }
        if container.volume_mounts.iter().flatten().any(|mount| mount.name == device.name) {
            faults.add(&path.field("name"), "the volume is mounted, too", "keep one of them");
        }
    }
}
