//! `hostPath`: a file or directory of the host, as it is; checked or made as its type says.

use std::fs::{DirBuilder, File, FileType};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::HostPathVolumeSource;

use super::error::Error;

/// A `hostPath` to be checked.
pub(super) struct HostPath {
    path: PathBuf,
    kind: String,
}

pub(super) fn plan(name: &str, source: &HostPathVolumeSource) -> Result<HostPath, Error> {
    let path = PathBuf::from(&source.path);
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Err(Error::mount(
            name,
            format!("invalid HostPath `{}`: write an absolute path without \"..\"", source.path),
        ));
    }
    Ok(HostPath { path, kind: source.type_.clone().unwrap_or_default() })
}

impl HostPath {
    /// Checks what is there; makes what may be made.
    ///
    /// # Errors
    /// In the words of the stock kubelet.
    pub fn make(&self) -> Result<(), String> {
        let path = &self.path;
        let found = match std::fs::metadata(path) {
            Ok(found) => Some(found.file_type()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(format!("hostPath type check failed: {}: {e}", path.display())),
        };
        let (expected, create) = match self.kind.as_str() {
            // An engine makes what is missing as a directory; here it is made with a known mode.
            "" if found.is_some() => return Ok(()),
            "" | "DirectoryOrCreate" => ("Directory", true),
            "FileOrCreate" => ("File", true),
            other => (other, false),
        };
        match found {
            Some(found) => matches(path, found, expected),
            None if create && expected == "File" => make_file(path),
            None if create => make_directory(path),
            None => Err(format!(
                "hostPath type check failed: {} is not there (type {})",
                path.display(),
                self.kind
            )),
        }
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
        .map_err(|e| format!("hostPath {}: cannot make the directory: {e}", path.display()))
}

/// Makes the file, not the directories above it.
fn make_file(path: &Path) -> Result<(), String> {
    match File::options().write(true).create_new(true).mode(0o644).open(path) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(format!(
            "hostPath {}: cannot make the file: {e}; its directory must be there",
            path.display()
        )),
    }
}
