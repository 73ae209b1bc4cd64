//! The file that is mounted at a container's `terminationMessagePath`.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::{Error, PathError, at};
use super::layout::make_private;

/// Files kept of earlier attempts; those of containers that the engine may still hold.
const KEPT: u32 = 5;

/// Makes the file of an attempt, writable by any user, and removes those of long gone attempts.
pub(super) fn make(directory: &Path, attempt: u32) -> Result<PathBuf, Error> {
    make_private(directory).and_then(|()| create(directory, attempt)).map_err(|e| Error::pod(e.to_string()))
}

fn create(directory: &Path, attempt: u32) -> Result<PathBuf, PathError> {
    let path = directory.join(attempt.to_string());
    match File::options().write(true).create_new(true).open(&path) {
        // The mode is set apart: the process's umask must not narrow it.
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(0o666)).map_err(at("set the mode of", &path))?;
            forget(directory, attempt);
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(at("make the file", &path)(e)),
    }
    Ok(path)
}

/// What stays by mistake goes with the pod's directory.
fn forget(directory: &Path, attempt: u32) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        if number.is_some_and(|n| n.saturating_add(KEPT) < attempt) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
