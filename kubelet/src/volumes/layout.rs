//! Directory layout below `<root-dir>/pods`. It is the same as in the stock kubelet.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::error::{Error, PathError, at};
use crate::observed::PodUid;

/// The directory of all pods.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pods: PathBuf,
}

impl Layout {
    pub fn new(root_dir: &Path) -> Self {
        Self { pods: root_dir.join("pods") }
    }

    /// Directory of a pod.
    pub fn pod(&self, uid: &PodUid) -> PathBuf {
        self.pods.join(uid.as_str())
    }

    /// Directory of all volumes of a plugin: `volumes/kubernetes.io~<plugin>`.
    pub fn plugin(&self, uid: &PodUid, plugin: &str) -> PathBuf {
        let mut path = self.pod(uid);
        path.push("volumes");
        path.push(format!("kubernetes.io~{plugin}"));
        path
    }

    /// The target of a subPath's bind mount: `volume-subpaths/<volume>/<container>/<n>`.
    pub fn sub_path(&self, uid: &PodUid, volume: &str, container: &str, index: usize) -> PathBuf {
        let mut path = self.pod(uid);
        path.extend(["volume-subpaths", volume, container]);
        path.push(index.to_string());
        path
    }

    /// Directory of a pod's termination messages.
    pub fn termination(&self, uid: &PodUid) -> PathBuf {
        self.pod(uid).join("termination-messages")
    }

    /// All pods that have a directory.
    pub fn pods(&self) -> Result<Vec<PodUid>, Error> {
        let failed = |e| Error::pod(at("read", &self.pods)(e).to_string());
        let entries = match std::fs::read_dir(&self.pods) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(failed(e)),
        };
        let mut uids = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_dir()
                && let Some(name) = entry.file_name().to_str()
            {
                uids.push(PodUid::new(name));
            }
        }
        Ok(uids)
    }
}

/// Rejects a name that is not safe as a directory name.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), Error> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(Error::pod(format!("the {what} {name:?} cannot be the name of a directory: rename it")));
    }
    Ok(())
}

/// Creates a directory and its parents. Other users cannot access them.
pub(super) fn make_private(path: &Path) -> Result<(), PathError> {
    DirBuilder::new().recursive(true).mode(0o750).create(path).map_err(at("create the directory", path))
}

/// Sets mode and group of a directory if they differ.
pub(super) fn open(path: &Path, mode: u32, group: Option<u32>) -> Result<(), PathError> {
    let is = path.symlink_metadata().map_err(at("stat", path))?;
    if let Some(group) = group.filter(|&group| group != is.gid()) {
        chown(path, None, Some(group)).map_err(at("change the group of", path))?;
    } else if is.mode() & 0o7777 == mode {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(at("set the mode of", path))
}
