//! `emptyDir`: a directory that lives as long as its pod.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use k8s_openapi::api::core::v1::EmptyDirVolumeSource;

use super::error::{Error, PathError, at};
use super::layout::make_private;

/// Its directory below `volumes/`.
pub(super) const PLUGIN: &str = "empty-dir";

/// An `emptyDir` to be made.
pub(super) struct EmptyDir {
    mode: u32,
    group: Option<u32>,
}

pub(super) fn plan(
    name: &str,
    source: &EmptyDirVolumeSource,
    fs_group: Option<i64>,
) -> Result<EmptyDir, Error> {
    match source.medium.as_deref().unwrap_or_default() {
        "" => {}
        other => return Err(Error::mount(name, format!("emptyDir medium {other} is not supported"))),
    }
    let group = fs_group.map(u32::try_from).transpose();
    let group = group.map_err(|_| Error::mount(name, "fsGroup is not a group id"))?;
    let mode = source.mode.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(0o777);
    Ok(EmptyDir { mode: if group.is_some() { mode | 0o2770 } else { mode }, group })
}

impl EmptyDir {
    pub fn make(&self, path: &Path) -> Result<(), PathError> {
        make_private(path)?;
        let is = std::fs::symlink_metadata(path).map_err(at("look at", path))?;
        if let Some(group) = self.group.filter(|&group| group != is.gid()) {
            chown(path, None, Some(group)).map_err(at("give to fsGroup", path))?;
        } else if is.mode() & 0o7777 == self.mode {
            return Ok(());
        }
        std::fs::set_permissions(path, Permissions::from_mode(self.mode)).map_err(at("set the mode of", path))
    }
}
