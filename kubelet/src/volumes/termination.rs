//! Termination message files of containers.
//!
//! The files of a pod are on a tmpfs of their own, so that the kernel limits what containers write. Of earlier
//! attempts, only the file of the latest is kept, truncated to the bytes that the status shows.

use std::fs::{File, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::{Error, PathError, at};
use super::layout::make_private;
use super::mounting::{self, Memory, Mounted};
use crate::runtime::TERMINATION_MESSAGE_BYTES;

/// Size limit of all message files of a pod, in bytes. Further writes fail with ENOSPC.
pub(super) const LIMIT_BYTES: u64 = 1 << 20;

/// Creates the file of an attempt, writable for all users. Truncates the file of the previous attempt and removes earlier ones.
pub(super) fn make(directory: &Path, container: &str, attempt: u32) -> Result<PathBuf, Error> {
    make_private(directory)
        .and_then(|()| limit(directory))
        .and_then(|()| create(directory, container, attempt))
        .map_err(|e| Error::pod(e.to_string()))
}

fn limit(directory: &Path) -> Result<(), PathError> {
    let memory = Memory { size_bytes: Some(LIMIT_BYTES), secret: true };
    if mounting::memory(directory, memory)? == Mounted::NotPermitted {
        tracing::debug!(directory = %directory.display(), "termination messages are not limited: this process may not mount");
    }
    Ok(())
}

fn create(directory: &Path, container: &str, attempt: u32) -> Result<PathBuf, PathError> {
    let path = directory.join(format!("{container}.{attempt}"));
    forget(directory, container, attempt);
    match File::options().write(true).create_new(true).open(&path) {
        // The mode is set separately, because the umask would reduce it.
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(0o666)).map_err(at("set the mode of", &path))?;
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(at("create the file", &path)(e)),
    }
    Ok(path)
}

/// Frees the space of earlier attempts. Files that cannot be removed disappear with the pod's directory.
fn forget(directory: &Path, container: &str, attempt: u32) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of_container = name.to_str().and_then(|name| name.strip_prefix(container)?.strip_prefix('.'));
        match of_container.and_then(|number| number.parse::<u32>().ok()) {
            Some(earlier) if earlier.saturating_add(1) < attempt => {
                let _ = std::fs::remove_file(entry.path());
            }
            Some(earlier) if earlier < attempt => {
                let _ = trim(&entry.path());
            }
            Some(_) | None => {}
        }
    }
}

/// Truncates a file to its last bytes, which the status shows.
fn trim(path: &Path) -> io::Result<()> {
    let mut file = File::options().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let Some(start) = length.checked_sub(TERMINATION_MESSAGE_BYTES).filter(|start| *start > 0) else {
        return Ok(());
    };
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.read_to_end(&mut end)?;
    // Free space before writing.
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(&end)
}
