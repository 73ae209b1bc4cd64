//! `emptyDir`: a directory that lives as long as its pod, on disk or in memory.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use api::quantity::Quantity;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Pod, PodSpec};

use super::Wanted;
use super::error::{Error, PathError, at};
use super::layout::make_private;
use super::mounting::{self, Memory, Mounted};
use super::plan;

/// Its directory below `volumes/`.
pub(super) const PLUGIN: &str = "empty-dir";

/// An `emptyDir` to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EmptyDir {
    mode: u32,
    group: Option<u32>,
    memory: Option<Memory>,
}

pub(super) fn plan(
    wanted: &Wanted<'_>,
    name: &str,
    source: &EmptyDirVolumeSource,
    group: Option<u32>,
) -> Result<EmptyDir, Error> {
    let memory = match source.medium.as_deref().unwrap_or_default() {
        "" => None,
        "Memory" => {
            let size_bytes = memory_size(wanted, limit_bytes(source));
            Some(Memory { size_bytes, secret: false })
        }
        other => {
            let message =
                format!("emptyDir medium {other} is not supported: use Memory, or leave it out for the disk");
            return Err(Error::mount(name, message));
        }
    };
    let mode = source.mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0o777);
    Ok(EmptyDir { mode: if group.is_some() { mode | 0o2770 } else { mode }, group, memory })
}

/// The `sizeLimit`, if there is one.
pub(super) fn limit_bytes(source: &EmptyDirVolumeSource) -> Option<u64> {
    let limit = Quantity::of(source.size_limit.as_ref()?).ok()?.units();
    u64::try_from(limit).ok().filter(|&bytes| bytes > 0)
}

/// The volumes of a pod on the disk that have a limit: the name, the limit in bytes, and as the pod spells it.
pub(super) fn limited(pod: &Pod) -> impl Iterator<Item = (&str, u64, &str)> {
    plan::volumes(pod).filter_map(|volume| {
        let source = volume.empty_dir.as_ref()?;
        let on_disk = source.medium.as_deref().unwrap_or_default().is_empty();
        let bytes = limit_bytes(source).filter(|_| on_disk)?;
        Some((volume.name.as_str(), bytes, source.size_limit.as_ref()?.0.as_str()))
    })
}

/// True for a pod whose use of the disk has to be measured.
pub fn is_limited(pod: &Pod) -> bool {
    limited(pod).next().is_some()
}

/// Memory for a volume: never more than the pod's containers may use together, or the node has.
fn memory_size(wanted: &Wanted<'_>, limit: Option<u64>) -> Option<u64> {
    let of_pod = wanted.pod.spec.as_ref().and_then(memory_of_all);
    let most = of_pod.or(u64::try_from(wanted.facts.memory_bytes).ok().filter(|&bytes| bytes > 0));
    limit.into_iter().chain(most).min()
}

/// What a pod's containers may use together; `None` when one of them has no limit.
fn memory_of_all(spec: &PodSpec) -> Option<u64> {
    let limited = |c: &k8s_openapi::api::core::v1::Container| {
        let limits = c.resources.as_ref().and_then(|r| r.limits.as_ref());
        limits.is_some_and(|limits| limits.contains_key("memory"))
    };
    if !spec.containers.iter().chain(spec.init_containers.iter().flatten()).all(limited) {
        return None;
    }
    let limits = api::resources::pod_limits(spec);
    u64::try_from(limits.get("memory")?.units()).ok().filter(|&bytes| bytes > 0)
}

impl EmptyDir {
    /// Makes the directory unless it is there; `Ok(true)` when it was to be memory and this process may not mount.
    ///
    /// Mode and group are set once: from then on the directory is the pod's, which may change them.
    pub fn make(&self, path: &Path) -> Result<bool, PathError> {
        let is_new = !path.exists();
        if is_new {
            // Under another name first, so that a kill leaves nothing half made.
            let unfinished = path.with_extension("new");
            make_private(&unfinished)?;
            open(&unfinished, self.mode, self.group)?;
            std::fs::rename(&unfinished, path).map_err(at("rename to", path))?;
        }
        let mut on_disk = false;
        if let Some(memory) = self.memory {
            let mounted = mounting::memory(path, memory)?;
            on_disk = mounted == Mounted::NotPermitted;
            if mounted == Mounted::New {
                open(path, self.mode, self.group)?;
            }
        }
        Ok(on_disk && is_new)
    }
}

/// Gives a directory its mode and group unless it has them.
pub(super) fn open(path: &Path, mode: u32, group: Option<u32>) -> Result<(), PathError> {
    let is = path.symlink_metadata().map_err(at("look at", path))?;
    if let Some(group) = group.filter(|&group| group != is.gid()) {
        chown(path, None, Some(group)).map_err(at("give to fsGroup", path))?;
    } else if is.mode() & 0o7777 == mode {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(at("set the mode of", path))
}
