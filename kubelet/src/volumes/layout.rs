//! Where things lie below `<root-dir>/pods`, as with the stock kubelet.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
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

    /// A pod's directory.
    pub fn pod(&self, uid: &PodUid) -> PathBuf {
        self.pods.join(uid.as_str())
    }

    /// A volume's directory: `volumes/kubernetes.io~<plugin>/<name>`.
    pub fn volume(&self, uid: &PodUid, plugin: &str, name: &str) -> PathBuf {
        self.plugin(uid, plugin).join(name)
    }

    /// The directory of all volumes of one plugin.
    pub fn plugin(&self, uid: &PodUid, plugin: &str) -> PathBuf {
        let mut path = self.pod(uid);
        path.push("volumes");
        path.push(format!("kubernetes.io~{plugin}"));
        path
    }

    /// Where the parts of volumes that a container sees are bound: `volume-subpaths/<volume>/<container>/<n>`.
    pub fn sub_path(&self, uid: &PodUid, volume: &str, container: &str, index: usize) -> PathBuf {
        let mut path = self.pod(uid);
        path.extend(["volume-subpaths", volume, container]);
        path.push(index.to_string());
        path
    }

    /// What the kubelet keeps for a container.
    pub fn container(&self, uid: &PodUid, container: &str) -> PathBuf {
        let mut path = self.pod(uid);
        path.push("containers");
        path.push(container);
        path
    }

    /// The pods that have a directory.
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

/// Refuses a name that would lead out of the directory it stands in.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), Error> {
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return Err(Error::pod(format!("the {what} {name:?} cannot be the name of a directory: rename it")));
    }
    Ok(())
}

/// Makes a directory and those above it, closed to strangers.
pub(super) fn make_private(path: &Path) -> Result<(), PathError> {
    DirBuilder::new().recursive(true).mode(0o750).create(path).map_err(at("make the directory", path))
}
