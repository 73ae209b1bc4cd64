//! Validates volumes: unique names and exactly one source each.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{HostPathVolumeSource, ImageVolumeSource, KeyToPath, PodSpec, Volume};

use super::containers::Volumes;
use super::names::{dns_label, local_file, local_path, no_parent_element, one_of, required, within};
use super::projected;
use crate::field_error::FieldErrors;
use crate::path::Path;
use crate::quantity::Quantity;

/// Largest file mode.
const MODE_MAX: i64 = 0o777;
const HOST_PATH_TYPES: [&str; 8] =
    ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];

/// Validates all volumes and returns them by name.
pub(super) fn check<'a>(spec: &'a PodSpec, path: &Path<'_>, errors: &mut FieldErrors) -> Volumes<'a> {
    let volumes_path = &path.field("volumes");
    let mut known = BTreeMap::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = &volumes_path.index(index);
        match volume.name.as_str() {
            "" => required(&path.field("name"), "add a name, such as `name: data`", errors),
            name => dns_label(name, &path.field("name"), errors),
        }
        if !volume.name.is_empty() && known.insert(volume.name.as_str(), volume).is_some() {
            let what = format!("two volumes are called `{}`", volume.name);
            errors.duplicate(&path.field("name"), what, "use unique names");
        }
        one_source(volume, path, errors);
        local(volume, spec, path, errors);
        remote(volume, path, errors);
    }
    known
}

/// The names of the sources that are set.
pub(crate) fn sources(volume: &Volume) -> impl Iterator<Item = &'static str> {
    [
        (volume.empty_dir.is_some(), "emptyDir"),
        (volume.host_path.is_some(), "hostPath"),
        (volume.config_map.is_some(), "configMap"),
        (volume.secret.is_some(), "secret"),
        (volume.downward_api.is_some(), "downwardAPI"),
        (volume.projected.is_some(), "projected"),
        (volume.image.is_some(), "image"),
        (volume.persistent_volume_claim.is_some(), "persistentVolumeClaim"),
        (volume.ephemeral.is_some(), "ephemeral"),
        (volume.csi.is_some(), "csi"),
        (volume.nfs.is_some(), "nfs"),
        (volume.iscsi.is_some(), "iscsi"),
        (volume.fc.is_some(), "fc"),
        (volume.git_repo.is_some(), "gitRepo"),
        (volume.flex_volume.is_some(), "flexVolume"),
        (volume.cephfs.is_some(), "cephfs"),
        (volume.rbd.is_some(), "rbd"),
        (volume.cinder.is_some(), "cinder"),
        (volume.glusterfs.is_some(), "glusterfs"),
        (volume.flocker.is_some(), "flocker"),
        (volume.quobyte.is_some(), "quobyte"),
        (volume.scale_io.is_some(), "scaleIO"),
        (volume.storageos.is_some(), "storageos"),
        (volume.portworx_volume.is_some(), "portworxVolume"),
        (volume.photon_persistent_disk.is_some(), "photonPersistentDisk"),
        (volume.vsphere_volume.is_some(), "vsphereVolume"),
        (volume.gce_persistent_disk.is_some(), "gcePersistentDisk"),
        (volume.aws_elastic_block_store.is_some(), "awsElasticBlockStore"),
        (volume.azure_disk.is_some(), "azureDisk"),
        (volume.azure_file.is_some(), "azureFile"),
    ]
    .into_iter()
    .filter_map(|(set, name)| set.then_some(name))
}

fn one_source(volume: &Volume, path: &Path<'_>, errors: &mut FieldErrors) {
    let set: Vec<&str> = sources(volume).collect();
    if let [first, second, ..] = set.as_slice() {
        let what = format!("the volume is set to both {first} and {second}");
        errors.add(&path.field(second), what, "keep one of them, or make two volumes");
    }
}

/// Validates sources that a node provides.
fn local(volume: &Volume, spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(limit) = volume.empty_dir.as_ref().and_then(|dir| dir.size_limit.as_ref())
        && Quantity::of(limit).is_ok_and(Quantity::is_negative)
    {
        errors.add(&path.field("emptyDir").field("sizeLimit"), "it is negative", "write 0 or more");
    }
    if let Some(medium) = volume.empty_dir.as_ref().and_then(|dir| dir.medium.as_deref())
        && !medium.starts_with("HugePages-")
    {
        one_of(medium, &["", "Memory", "HugePages"], &path.field("emptyDir").field("medium"), errors);
    }
    if let Some(host_path) = &volume.host_path {
        check_host_path(host_path, &path.field("hostPath"), errors);
    }
    if let Some(secret) = &volume.secret {
        let path = &path.field("secret");
        if secret.secret_name.as_deref().unwrap_or_default().is_empty() {
            required(&path.field("secretName"), "add the name of a Secret", errors);
        }
        mode(secret.default_mode, &path.field("defaultMode"), errors);
        items(secret.items.as_deref(), path, errors);
    }
    if let Some(config_map) = &volume.config_map {
        let path = &path.field("configMap");
        if config_map.name.is_empty() {
            required(&path.field("name"), "add the name of a ConfigMap", errors);
        }
        mode(config_map.default_mode, &path.field("defaultMode"), errors);
        items(config_map.items.as_deref(), path, errors);
    }
    if let Some(downward_api) = &volume.downward_api {
        let path = &path.field("downwardAPI");
        mode(downward_api.default_mode, &path.field("defaultMode"), errors);
        projected::downward_files(downward_api.items.as_deref(), path, errors);
    }
    if let Some(source) = &volume.projected {
        projected::check(source, spec, &path.field("projected"), errors);
    }
    if let Some(image) = &volume.image {
        check_image(image, &path.field("image"), errors);
    }
}

fn check_host_path(host_path: &HostPathVolumeSource, path: &Path<'_>, errors: &mut FieldErrors) {
    if host_path.path.is_empty() {
        required(&path.field("path"), "add a path of the host", errors);
    }
    no_parent_element(&host_path.path, &path.field("path"), errors);
    one_of(host_path.type_.as_deref().unwrap_or_default(), &HOST_PATH_TYPES, &path.field("type"), errors);
}

fn check_image(image: &ImageVolumeSource, path: &Path<'_>, errors: &mut FieldErrors) {
    if image.reference.as_deref().unwrap_or_default().is_empty() {
        required(&path.field("reference"), "add an image", errors);
    }
    let policy = image.pull_policy.as_deref().unwrap_or_default();
    one_of(policy, &["Always", "IfNotPresent", "Never"], &path.field("pullPolicy"), errors);
}

/// Validates the mapping of keys to files.
pub(super) fn items(items: Option<&[KeyToPath]>, path: &Path<'_>, errors: &mut FieldErrors) {
    let items_path = &path.field("items");
    for (index, item) in items.unwrap_or_default().iter().enumerate() {
        let path = &items_path.index(index);
        if item.key.is_empty() {
            required(&path.field("key"), "add the key", errors);
        }
        file_path(&item.path, &path.field("path"), errors);
        mode(item.mode, &path.field("mode"), errors);
    }
}

/// Validates the path of a file in its volume.
pub(super) fn file_path(file: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if file.is_empty() {
        required(path, "add the file's path in the volume", errors);
    }
    local_file(file, path, errors);
}

/// Validates the mode of a file.
pub(super) fn mode(mode: Option<i32>, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(mode) = mode else { return };
    if !(0..=MODE_MAX).contains(&i64::from(mode)) {
        let what = format!("{mode} is not a file mode: in octal it is {mode:o}");
        errors.add(path, what, "write it in octal with a 0 in front, such as 0644, or in decimal up to 511");
    }
}

/// Validates the required fields of network volumes.
fn remote(volume: &Volume, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut need = |source: &'static str, field: &'static str, value: &str| {
        if value.is_empty() {
            required(&path.field(source).field(field), &format!("add `{field}`"), errors);
        }
    };
    if let Some(claim) = &volume.persistent_volume_claim {
        need("persistentVolumeClaim", "claimName", &claim.claim_name);
    }
    if let Some(nfs) = &volume.nfs {
        need("nfs", "server", &nfs.server);
        need("nfs", "path", &nfs.path);
    }
    if let Some(csi) = &volume.csi {
        need("csi", "driver", &csi.driver);
    }
    if let Some(iscsi) = &volume.iscsi {
        need("iscsi", "targetPortal", &iscsi.target_portal);
        need("iscsi", "iqn", &iscsi.iqn);
        within(i64::from(iscsi.lun), 0, 255, &path.field("iscsi").field("lun"), errors);
    }
    if let Some(git) = &volume.git_repo {
        let path = &path.field("gitRepo");
        if git.repository.is_empty() {
            required(&path.field("repository"), "add the repository", errors);
        }
        local_path(git.directory.as_deref().unwrap_or_default(), &path.field("directory"), errors);
    }
}
