//! Writes keys and certificates to files atomically.

use std::fs::{DirBuilder, File, OpenOptions, rename};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::Error;

/// Mode of files with private keys.
pub const SECRET: u32 = 0o600;
/// Mode of certificate files.
pub const PUBLIC: u32 = 0o644;
/// Permission bits of group and others. A file with a private key may have none of them.
pub const OTHERS: u32 = 0o077;
/// Maximum size of a file that is read, in bytes. A certificate chain has a few KiB.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Creates a directory that only its owner can access, if it does not exist.
pub fn private_directory(path: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::io("make", path))
}

/// Reads a file. `None` if it does not exist.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    Ok(Some(bytes))
}

/// Writes a file atomically and durably. After a crash it has either the new or the old content.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".tmp");
    let partial = Path::new(&partial);
    let failed = Error::io("write", path);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = || {
        // A leftover temporary file could have another mode.
        match std::fs::remove_file(partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(partial)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        rename(partial, path)
    };
    written().map_err(failed)?;
    sync(directory)
}

/// Removes a file if it exists.
///
/// # Errors
/// If it cannot be removed.
pub fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Syncs a directory, so that renames in it survive a power loss.
pub fn sync(directory: &Path) -> Result<(), Error> {
    File::open(directory).and_then(|opened| opened.sync_all()).map_err(Error::io("write", directory))
}
