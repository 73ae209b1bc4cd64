//! Volumes: each has a name of its own and exactly one source.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{HostPathVolumeSource, ImageVolumeSource, KeyToPath, PodSpec, Volume};

use super::containers::Volumes;
use super::names::{dns_label, local_file, local_path, no_steps_back, one_of, required, within};
use super::projected;
use crate::fault::Faults;
use crate::path::Path;
use crate::quantity::Quantity;

/// Every bit of a mode.
const MODE_MAX: i64 = 0o777;
const HOST_PATH_TYPES: [&str; 8] =
    ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];

/// Checks every volume and returns those that a container may refer to.
pub(super) fn check<'a>(spec: &'a PodSpec, path: &Path<'_>, faults: &mut Faults) -> Volumes<'a> {
    let volumes_path = &path.field("volumes");
    let mut known = BTreeMap::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = &volumes_path.index(index);
        match volume.name.as_str() {
            "" => required(&path.field("name"), "add a name, such as `name: data`", faults),
            name => dns_label(name, &path.field("name"), faults),
        }
        if !volume.name.is_empty() && known.insert(volume.name.as_str(), volume).is_some() {
            let what = format!("two volumes are called `{}`", volume.name);
            faults.twice(&path.field("name"), what, "give each its own name");
        }
        one_source(volume, path, faults);
        local(volume, spec, path, faults);
        remote(volume, path, faults);
    }
    known
}

/// The sources that are set, as the manifest names them.
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

fn one_source(volume: &Volume, path: &Path<'_>, faults: &mut Faults) {
    let set: Vec<&str> = sources(volume).collect();
    if let [first, second, ..] = set.as_slice() {
        let what = format!("the volume is {first} and {second} at once");
        faults.add(&path.field(second), what, "keep one of them, or make two volumes");
    }
}

/// Sources that a node has by itself.
fn local(volume: &Volume, spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    if let Some(limit) = volume.empty_dir.as_ref().and_then(|dir| dir.size_limit.as_ref())
        && Quantity::of(limit).is_ok_and(Quantity::is_negative)
    {
        faults.add(&path.field("emptyDir").field("sizeLimit"), "it is negative", "write 0 or more");
    }
    if let Some(medium) = volume.empty_dir.as_ref().and_then(|dir| dir.medium.as_deref())
        && !medium.starts_with("HugePages-")
    {
        one_of(medium, &["", "Memory", "HugePages"], &path.field("emptyDir").field("medium"), faults);
    }
    if let Some(host_path) = &volume.host_path {
        check_host_path(host_path, &path.field("hostPath"), faults);
    }
    if let Some(secret) = &volume.secret {
        let path = &path.field("secret");
        if secret.secret_name.as_deref().unwrap_or_default().is_empty() {
            required(&path.field("secretName"), "add the name of a Secret", faults);
        }
        mode(secret.default_mode, &path.field("defaultMode"), faults);
        items(secret.items.as_deref(), path, faults);
    }
    if let Some(config_map) = &volume.config_map {
        let path = &path.field("configMap");
        if config_map.name.is_empty() {
            required(&path.field("name"), "add the name of a ConfigMap", faults);
        }
        mode(config_map.default_mode, &path.field("defaultMode"), faults);
        items(config_map.items.as_deref(), path, faults);
    }
    if let Some(downward_api) = &volume.downward_api {
        let path = &path.field("downwardAPI");
        mode(downward_api.default_mode, &path.field("defaultMode"), faults);
        projected::downward_files(downward_api.items.as_deref(), path, faults);
    }
    if let Some(source) = &volume.projected {
        projected::check(source, spec, &path.field("projected"), faults);
    }
    if let Some(image) = &volume.image {
        check_image(image, &path.field("image"), faults);
    }
}

fn check_host_path(host_path: &HostPathVolumeSource, path: &Path<'_>, faults: &mut Faults) {
    if host_path.path.is_empty() {
        required(&path.field("path"), "add a path of the host", faults);
    }
    no_steps_back(&host_path.path, &path.field("path"), faults);
    one_of(host_path.type_.as_deref().unwrap_or_default(), &HOST_PATH_TYPES, &path.field("type"), faults);
}

fn check_image(image: &ImageVolumeSource, path: &Path<'_>, faults: &mut Faults) {
    if image.reference.as_deref().unwrap_or_default().is_empty() {
        required(&path.field("reference"), "add an image", faults);
    }
    let policy = image.pull_policy.as_deref().unwrap_or_default();
    one_of(policy, &["Always", "IfNotPresent", "Never"], &path.field("pullPolicy"), faults);
}

/// Checks which keys become which files.
pub(super) fn items(items: Option<&[KeyToPath]>, path: &Path<'_>, faults: &mut Faults) {
    let items_path = &path.field("items");
    for (index, item) in items.unwrap_or_default().iter().enumerate() {
        let path = &items_path.index(index);
        if item.key.is_empty() {
            required(&path.field("key"), "add the key", faults);
        }
        file_path(&item.path, &path.field("path"), faults);
        mode(item.mode, &path.field("mode"), faults);
    }
}

/// Checks where a file lies in its volume.
pub(super) fn file_path(file: &str, path: &Path<'_>, faults: &mut Faults) {
    if file.is_empty() {
        required(path, "add the file's path in the volume", faults);
    }
    local_file(file, path, faults);
}

/// Checks the mode of a file.
pub(super) fn mode(mode: Option<i32>, path: &Path<'_>, faults: &mut Faults) {
    let Some(mode) = mode else { return };
    if !(0..=MODE_MAX).contains(&i64::from(mode)) {
        let what = format!("{mode} is no mode: in octal it is {mode:o}");
        faults.add(path, what, "write it in octal with a 0 in front, such as 0644, or in decimal up to 511");
    }
}

/// Sources that a cluster's storage serves: what must be there, at least.
fn remote(volume: &Volume, path: &Path<'_>, faults: &mut Faults) {
    let mut need = |source: &'static str, field: &'static str, value: &str| {
        if value.is_empty() {
            required(&path.field(source).field(field), &format!("add `{field}`"), faults);
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
        within(i64::from(iscsi.lun), 0, 255, &path.field("iscsi").field("lun"), faults);
    }
    if let Some(git) = &volume.git_repo {
        let path = &path.field("gitRepo");
        if git.repository.is_empty() {
            required(&path.field("repository"), "add the repository", faults);
        }
        local_path(git.directory.as_deref().unwrap_or_default(), &path.field("directory"), faults);
    }
}
