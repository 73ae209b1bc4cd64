//! Detects changes of a manifest file, and reads it.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use api::decode::MAX_MANIFEST_BYTES;
use api::problem::Problem;
use command::Stamp;
use rustix::fs::OFlags;

use super::Text;
use crate::sources::identity::problem;

/// What a manifest path refers to.
pub(super) enum Entry {
    /// Nothing, or a symlink whose target does not exist.
    Absent,
    /// A regular file.
    File(Stamp),
    /// An entry that cannot be read as a manifest.
    Refused(Problem),
}

/// Checks the path without opening it, because opening a device can have side effects.
pub(super) fn stat(path: &Path) -> Entry {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Entry::File(Stamp::of(&metadata)),
        Ok(metadata) => Entry::Refused(Problem {
            what: format!("this is a {}, not a file", kind(&metadata)),
            remedy: "put a file there, or give it a name that is not a manifest's".to_owned(),
            ..problem()
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Entry::Absent,
        Err(error) => Entry::Refused(unreadable(&error)),
    }
}

/// Reads the file. Returns `None` if it does not exist.
pub(super) fn read(path: &Path) -> Option<Result<(Stamp, Vec<u8>), Problem>> {
    match open_and_read(path) {
        Ok(Ok(read)) => Some(Ok(read)),
        Ok(Err(problem)) => Some(Err(problem)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(unreadable(&error))),
    }
}

/// Checks and reads the path. Returns `None` if it does not exist.
pub(super) fn once(path: &Path) -> Option<Text> {
    match stat(path) {
        Entry::Absent => None,
        Entry::Refused(problem) => Some(Err(Box::new(problem))),
        Entry::File(_) => read(path).map(|read| read.map(|(_, bytes)| bytes).map_err(Box::new)),
    }
}

/// Returns the bytes, or an error if they exceed the size limit.
pub(super) fn bounded(bytes: Vec<u8>) -> Text {
    if bytes.len() > MAX_MANIFEST_BYTES { Err(Box::new(too_long(bytes.len() as u64))) } else { Ok(bytes) }
}

fn open_and_read(path: &Path) -> io::Result<Result<(Stamp, Vec<u8>), Problem>> {
    // Opening must not block if the path is a FIFO by now.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC).bits();
    let mut file: File = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no longer a file"));
    }
    let stamp = Stamp::of(&metadata);
    if metadata.len() > MAX_MANIFEST_BYTES as u64 {
        return Ok(Err(too_long(metadata.len())));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    let limit = MAX_MANIFEST_BYTES as u64 + 1;
    let read = file.by_ref().take(limit).read_to_end(&mut bytes)? as u64;
    Ok(if read == limit { Err(too_long(read)) } else { Ok((stamp, bytes)) })
}

fn too_long(bytes: u64) -> Problem {
    Problem {
        what: format!("the file is {bytes} bytes long; the limit is {MAX_MANIFEST_BYTES}"),
        remedy: "split it into several files".to_owned(),
        ..problem()
    }
}

/// The problem for a file or directory that cannot be read.
pub(super) fn unreadable(error: &io::Error) -> Problem {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => "give the user of the kubelet read permission",
        _ => "check the file and the disk it is on",
    };
    Problem { what: format!("it cannot be read: {error}"), remedy: remedy.to_owned(), ..problem() }
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        "directory"
    } else if kind.is_fifo() {
        "named pipe"
    } else if kind.is_socket() {
        "socket"
    } else {
        "device"
    }
}
