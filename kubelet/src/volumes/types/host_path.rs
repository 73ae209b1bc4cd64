//! `hostPath` volumes: checks or creates a file or directory of the host, according to its type.

use std::fs::{DirBuilder, File, FileType};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{HostPathVolumeSource, Volume};

use super::{Create, Line, Setup, VolumeInput, VolumeType};

pub(super) fn of(volume: &Volume) -> Option<Box<dyn VolumeType + '_>> {
    Some(Box::new(HostPathVolume(volume.host_path.as_ref()?)))
}

struct HostPathVolume<'a>(&'a HostPathVolumeSource);

/// A planned `hostPath`.
struct HostPath {
    kind: String,
}

impl VolumeType for HostPathVolume<'_> {
    fn plan(&self, _: &VolumeInput<'_>, _: Option<u32>) -> Result<Setup, String> {
        plan(self.0)
    }

    fn host_path(&self, _: &VolumeInput<'_>) -> Result<PathBuf, String> {
        Ok(PathBuf::from(&self.0.path))
    }

    fn describe(&self) -> Vec<Line> {
        vec![
            Line::Field("Type", "HostPath (bare host directory volume)".to_owned()),
            Line::Field("Path", self.0.path.clone()),
            Line::Field("HostPathType", self.0.type_.clone().unwrap_or_default()),
        ]
    }
}

/// Plans a source, which may also be that of a PersistentVolume.
pub(super) fn plan(source: &HostPathVolumeSource) -> Result<Setup, String> {
    check("HostPath", &source.path)?;
    Ok(Setup::Custom(Box::new(HostPath { kind: source.type_.clone().unwrap_or_default() })))
}

/// Rejects a path that is not absolute or contains `..`. `what` names the field in the error.
pub(super) fn check(what: &str, path: &str) -> Result<(), String> {
    let is_valid = Path::new(path).is_absolute()
        && Path::new(path).components().all(|part| part != Component::ParentDir);
    if is_valid {
        return Ok(());
    }
    Err(format!("invalid {what} `{path}`: write an absolute path without \"..\""))
}

impl Create for HostPath {
    /// Checks the path, and creates it if its type allows that.
    ///
    /// # Errors
    /// If the path does not have the required type. The error is the text of the stock kubelet.
    fn create(&self, path: &Path) -> Result<bool, String> {
        let found = match std::fs::metadata(path) {
            Ok(found) => Some(found.file_type()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(format!("hostPath type check failed: {}: {e}", path.display())),
        };
        let (expected, create) = match self.kind.as_str() {
            // The engine would create a missing path as a directory; the kubelet does it with a defined mode.
            "" if found.is_some() => return Ok(false),
            "" | "DirectoryOrCreate" => ("Directory", true),
            "FileOrCreate" => ("File", true),
            other => (other, false),
        };
        match found {
            Some(found) => matches(path, found, expected)?,
            None if create && expected == "File" => make_file(path)?,
            None if create => make_directory(path)?,
            None => {
                return Err(format!(
                    "hostPath type check failed: {} does not exist (type {})",
                    path.display(),
                    self.kind
                ));
            }
        }
        Ok(false)
    }
}

fn matches(path: &Path, found: FileType, expected: &str) -> Result<(), String> {
    let described = match expected {
        "Directory" => "directory",
        "File" => "file",
        "Socket" => "socket file",
        "CharDevice" => "character device",
        "BlockDevice" => "block device",
        other => return Err(format!("{other} is an invalid hostPath type")),
    };
    let is = kind_of(found);
    if is == expected {
        return Ok(());
    }
    Err(format!("hostPath type check failed: {} is not a {described}, it is a {is}", path.display()))
}

fn kind_of(found: FileType) -> &'static str {
    if found.is_dir() {
        "Directory"
    } else if found.is_file() {
        "File"
    } else if found.is_socket() {
        "Socket"
    } else if found.is_char_device() {
        "CharDevice"
    } else if found.is_block_device() {
        "BlockDevice"
    } else {
        "named pipe"
    }
}

fn make_directory(path: &Path) -> Result<(), String> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
        .map_err(|e| format!("hostPath {}: cannot create the directory: {e}", path.display()))
}

/// Creates the file, but not its parent directories.
fn make_file(path: &Path) -> Result<(), String> {
    match File::options().write(true).create_new(true).mode(0o644).open(path) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => {
            Err(format!("hostPath {}: cannot create the file: {e}; its directory must exist", path.display()))
        }
    }
}
