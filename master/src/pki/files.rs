//! Files that are there whole or not at all.

use std::fs::{DirBuilder, File, OpenOptions, rename};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::Error;

/// Mode of what holds a key.
pub const SECRET: u32 = 0o600;
/// Mode of what everybody may know.
pub const PUBLIC: u32 = 0o644;
/// Reading, writing and running, for the group and for everybody: none of it for what holds a key.
pub const OTHERS: u32 = 0o077;
/// Longest file that is read: a chain of certificates is a few KiB.
const LONGEST_BYTES: u64 = 1 << 20;

/// Makes a directory that only its owner may enter, where there is none.
pub fn private_directory(path: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::io("make", path))
}

/// What a file holds; `None` when it is not there.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(LONGEST_BYTES).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    Ok(Some(bytes))
}

/// Writes a file in one step that survives a kill and a lost power: afterwards it holds this, or still what it held before.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".tmp");
    let partial = Path::new(&partial);
    let failed = Error::io("write", path);
    let directory = path.parent().unwrap_or(Path::new("."));
    let written = || {
        // A leftover of a kill could have another mode.
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

/// Takes a file away, if it is there.
///
/// # Errors
/// When it cannot be.
pub fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Has a directory keep what its names are now, through a lost power.
pub fn sync(directory: &Path) -> Result<(), Error> {
    File::open(directory).and_then(|opened| opened.sync_all()).map_err(Error::io("write", directory))
}
