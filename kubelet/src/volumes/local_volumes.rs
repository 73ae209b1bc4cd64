//! The directories of the built-in provisioner: `<root-dir>/local-path/<PersistentVolume>`.
//!
//! The kubelet creates a directory when a pod mounts it, and deletes it when the API server requests that. A directory
//! below `pods/<uid>/volumes/` records that the pod uses the volume; it disappears with the pod. A directory below
//! `<root-dir>/local-path-created/` records that the volume was created, so that a disk that is not mounted at
//! `local-path` looks like an error and not like an empty volume.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::{Error, at};
use super::layout::{make_private, open};
use super::teardown;
use crate::report::LOCAL_VOLUMES;

/// The plugin of the stock kubelet for local volumes, in the path of the record.
const PLUGIN: &str = "kubernetes.io~local-volume";
/// Directory of the records of created volumes, below the root directory.
const CREATED: &str = "local-path-created";
/// Prefix of a directory that is being deleted. No PersistentVolume can have such a name.
const DELETED: &str = ".deleted-";
/// Mode of a new volume. Containers have any user.
const MODE: u32 = 0o777;
const GROUP_MODE: u32 = 0o2777;

/// The `local-path` volumes of this node.
#[derive(Clone, Debug)]
pub struct LocalVolumes {
    directory: PathBuf,
    created: PathBuf,
    pods: PathBuf,
    /// Held while a volume is mounted or moved away, so that no volume in use is deleted.
    lock: Arc<Mutex<()>>,
}

/// Why a volume was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// The name is not that of a volume.
    #[error("{0:?} is not the name of a volume")]
    Name(String),
    /// A pod uses the volume.
    #[error("the pod with the UID {0} uses the volume")]
    InUse(String),
    /// The data could not be removed.
    #[error(transparent)]
    Io(#[from] Error),
}

impl LocalVolumes {
    pub(super) fn new(root_dir: &Path) -> Self {
        Self {
            directory: root_dir.join(LOCAL_VOLUMES),
            created: root_dir.join(CREATED),
            pods: root_dir.join("pods"),
            lock: Arc::default(),
        }
    }

    /// Creates the directory of a volume, and records that the pod uses it. Mode and group are set once, because pods
    /// may change them later.
    ///
    /// # Errors
    /// If `path`, from the PersistentVolume, is not the path of this volume on this node, if its data is missing, or if
    /// the directory cannot be created.
    pub(super) fn mount(
        &self,
        pod: &Path,
        volume: &str,
        path: &Path,
        group: Option<u32>,
    ) -> Result<(), String> {
        if !is_name(volume) || path != self.directory.join(volume) {
            let (path, directory) = (path.display(), self.directory.display());
            return Err(format!(
                "the volume {volume:?} has the path {path}, but local-path volumes of this node are below {directory}"
            ));
        }
        let _locked = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let record = self.created.join(volume);
        if !path.is_dir() && record.is_dir() {
            return Err(self.missing(volume));
        }
        let made = || {
            make_private(&pod.join("volumes").join(PLUGIN).join(volume))?;
            if path.is_dir() {
                return make_private(&record);
            }
            make_private(&self.directory)?;
            // Created under another name first, so that an interruption leaves nothing incomplete.
            let unfinished = self.directory.join(format!(".new-{volume}"));
            make_private(&unfinished)?;
            open(&unfinished, if group.is_some() { GROUP_MODE } else { MODE }, group)?;
            std::fs::rename(&unfinished, path).map_err(at("rename to", path))?;
            make_private(&record)
        };
        made().map_err(|error| error.to_string())
    }

    /// Deletes the data of a volume. Idempotent.
    ///
    /// # Errors
    /// If a pod uses the volume, the data is missing, or it cannot be removed. A retry may succeed.
    pub(super) fn delete(&self, volume: &str) -> Result<(), DeleteError> {
        if !is_name(volume) {
            return Err(DeleteError::Name(volume.to_owned()));
        }
        let (path, deleted) =
            (self.directory.join(volume), self.directory.join(format!("{DELETED}{volume}")));
        let record = self.created.join(volume);
        {
            let _locked = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(pod) = self.user_of(volume)? {
                return Err(DeleteError::InUse(pod));
            }
            if !path.exists() && !deleted.exists() && record.is_dir() {
                return Err(DeleteError::Io(Error::pod(self.missing(volume))));
            }
            match std::fs::rename(&path, &deleted) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    // A part of an earlier deletion may be left.
                    teardown::remove(&deleted)?;
                    std::fs::rename(&path, &deleted)
                        .map_err(|e| Error::pod(at("delete", &path)(e).to_string()))?;
                }
                _ => {}
            }
            teardown::remove(&record)?;
        }
        Ok(teardown::remove(&deleted)?)
    }

    /// The error for a volume that was created and has no directory.
    fn missing(&self, volume: &str) -> String {
        let (directory, record) = (self.directory.display(), self.created.join(volume));
        format!(
            "the directory of the volume {volume:?} is missing in {directory}: mount its disk there, or, if the data is \
             lost, remove {}",
            record.display()
        )
    }

    /// The UID of a pod that uses the volume.
    fn user_of(&self, volume: &str) -> Result<Option<String>, Error> {
        let failed = |e| Error::pod(at("read", &self.pods)(e).to_string());
        let pods = match std::fs::read_dir(&self.pods) {
            Ok(pods) => pods,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        for pod in pods {
            let pod = pod.map_err(failed)?;
            let record = pod.path().join("volumes").join(PLUGIN).join(volume);
            if record.try_exists().map_err(failed)? {
                return Ok(Some(pod.file_name().to_string_lossy().into_owned()));
            }
        }
        Ok(None)
    }
}

/// Whether the text is the name of a PersistentVolume, which is safe as the name of a directory.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
}

#[cfg(test)]
mod tests {
    //! Tests of volumes that are created, used and deleted on a real disk.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_volume_in_use_is_not_deleted_and_its_data_outlives_pods() {
        let root = tempfile::tempdir().unwrap();
        let volumes = LocalVolumes::new(root.path());
        let (pod, path) = (root.path().join("pods/u-1"), root.path().join(LOCAL_VOLUMES).join("pvc-1"));
        volumes.mount(&pod, "pvc-1", &path, None).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, MODE);
        std::fs::create_dir(path.join("sub")).unwrap();
        std::fs::write(path.join("sub/data"), "kept").unwrap();
        assert!(matches!(volumes.delete("pvc-1"), Err(DeleteError::InUse(pod)) if pod == "u-1"));
        teardown::remove(&pod).unwrap();
        let other = root.path().join("pods/u-2");
        volumes.mount(&other, "pvc-1", &path, None).unwrap();
        assert_eq!(std::fs::read_to_string(path.join("sub/data")).unwrap(), "kept");
        teardown::remove(&other).unwrap();
        volumes.delete("pvc-1").unwrap();
        volumes.delete("pvc-1").unwrap();
        assert_eq!(std::fs::read_dir(root.path().join(LOCAL_VOLUMES)).unwrap().count(), 0);
    }

    #[test]
    fn a_volume_whose_disk_is_missing_is_neither_created_nor_deleted() {
        let root = tempfile::tempdir().unwrap();
        let volumes = LocalVolumes::new(root.path());
        let (pod, path) = (root.path().join("pods/u-1"), root.path().join(LOCAL_VOLUMES).join("pvc-1"));
        volumes.mount(&pod, "pvc-1", &path, None).unwrap();
        teardown::remove(&pod).unwrap();
        // The disk is not mounted.
        let disk = root.path().join("disk");
        std::fs::rename(root.path().join(LOCAL_VOLUMES), &disk).unwrap();
        let error = volumes.mount(&pod, "pvc-1", &path, None).unwrap_err();
        assert!(error.contains("is missing") && !pod.exists() && !path.exists(), "{error}");
        assert!(matches!(volumes.delete("pvc-1"), Err(DeleteError::Io(_))));
        std::fs::rename(&disk, root.path().join(LOCAL_VOLUMES)).unwrap();
        volumes.mount(&pod, "pvc-1", &path, None).unwrap();
        teardown::remove(&pod).unwrap();
        volumes.delete("pvc-1").unwrap();
        assert_eq!(std::fs::read_dir(root.path().join(CREATED)).unwrap().count(), 0);
    }

    #[test]
    fn only_directories_of_the_provisioner_are_touched() {
        let root = tempfile::tempdir().unwrap();
        let (volumes, pod) = (LocalVolumes::new(root.path()), root.path().join("pods/u-1"));
        std::fs::create_dir(root.path().join("other")).unwrap();
        for name in ["", ".", "..", "../other", "a/b", ".deleted-x"] {
            assert!(matches!(volumes.delete(name), Err(DeleteError::Name(_))), "{name}");
            let path = root.path().join(LOCAL_VOLUMES).join(name);
            assert!(volumes.mount(&pod, name, &path, None).is_err(), "{name}");
        }
        let elsewhere = volumes.mount(&pod, "pvc-1", &root.path().join("other"), None).unwrap_err();
        assert!(elsewhere.contains("local-path volumes of this node are below"), "{elsewhere}");
        assert!(root.path().join("other").is_dir() && !pod.exists());
    }

    #[test]
    fn a_deletion_that_was_interrupted_continues() {
        let root = tempfile::tempdir().unwrap();
        let (volumes, base) = (LocalVolumes::new(root.path()), root.path().join(LOCAL_VOLUMES));
        std::fs::create_dir_all(base.join(".deleted-pvc-1/left")).unwrap();
        std::fs::create_dir_all(base.join("pvc-1")).unwrap();
        volumes.delete("pvc-1").unwrap();
        assert_eq!(std::fs::read_dir(base).unwrap().count(), 0);
    }
}
