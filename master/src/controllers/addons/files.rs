//! Scans the add-on directory: which files it has, and which objects these contain.

use std::collections::BTreeSet;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use command::Stamp;
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::manifests::{self, Manifest};

/// The extensions of manifest files.
const EXTENSIONS: [&str; 3] = [".json", ".yaml", ".yml"];
/// Beginnings and ends of names that editors and mounted ConfigMaps create beside files.
const LEFT_OVER: (&[&str], &[&str]) = (&["..", "#", ".#"], &["~", ".bak", ".swp", ".swx", ".swo"]);
/// The largest file that is read.
pub const MAX_FILE_BYTES: u64 = 8 << 20;
/// The most files of a directory. It bounds the ConfigMap that names them.
pub const MAX_FILES: usize = 1_000;
/// The most bytes of all files of a directory, which are in memory.
pub const MAX_TOTAL_BYTES: u64 = 64 << 20;
/// The most objects of all files of a directory, which are in memory.
pub const MAX_TOTAL_OBJECTS: usize = 20_000;
/// The most ignored entries that a scan names.
const MAX_SKIPPED: usize = 100;
/// The symlink that changes when the kubelet updates a mounted ConfigMap.
const MOUNTED: &str = "..data";
/// The permission bit with which every user may write.
const WRITABLE_BY_OTHERS: u32 = 0o002;

/// A file of the directory.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    pub name: String,
    /// Zero if the file cannot be opened.
    pub stamp: Stamp,
    /// Whether the file must be read again even if its stamp is the same.
    pub is_recent: bool,
    /// SHA-256 of the bytes. Zero if they cannot be read.
    pub digest: [u8; 32],
    /// The manifests in their order, or why the file cannot be used.
    pub content: Result<Arc<[Manifest]>, Arc<str>>,
}

impl File {
    fn unusable(name: String, why: impl Into<Arc<str>>) -> Self {
        Self { name, stamp: Stamp::default(), is_recent: true, digest: [0; 32], content: Err(why.into()) }
    }

    /// Whether the file did not change between two scans.
    pub fn is_same(&self, other: &Self) -> bool {
        let read = |file: &Self| (file.stamp, file.digest, file.content.is_ok());
        read(self) == read(other)
    }
}

/// The directory at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scan {
    /// The files with a manifest extension, in the order of their names.
    pub files: Vec<File>,
    /// Why other entries are ignored.
    pub skipped: BTreeSet<String>,
}

impl Scan {
    /// Whether every file was read and parsed, and there is one. Only then is an object without a manifest known to be
    /// removed.
    pub fn is_complete(&self) -> bool {
        !self.files.is_empty() && self.files.iter().all(|file| file.content.is_ok())
    }
}

/// Scans a directory. Files of the `previous` scan with the same stamp are not read again, and files with the same
/// content are not parsed again.
///
/// # Errors
/// If the directory cannot be listed or has an unsafe mode. That says nothing about its files.
pub fn scan(directory: &Path, previous: &[File]) -> Result<Scan, String> {
    let text = |error: io::Error| error.to_string();
    check_mode(&fs::metadata(directory).map_err(text)?)?;
    let mut scan = Scan::default();
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(text)? {
        let name = entry.map_err(text)?.file_name();
        let shown = name.to_string_lossy();
        if is_manifest(&shown) {
            names.push(name);
        } else if !is_left_over(&shown) && scan.skipped.len() < MAX_SKIPPED {
            scan.skipped.insert(format!(
                "{shown}: ignored: manifests end in .json, .yaml or .yml, and begin with no dot"
            ));
        }
        if names.len() > MAX_FILES {
            return Err(format!("the directory has more than {MAX_FILES} manifests"));
        }
    }
    names.sort();
    let (mut total_bytes, mut total_objects) = (0, 0);
    for name in names {
        let path = directory.join(&name);
        let name = match name.into_string() {
            Ok(name) => name,
            Err(name) => {
                let (name, why) = (name.to_string_lossy().into_owned(), "the name of the file is not UTF-8");
                scan.files.push(File::unusable(name, why));
                continue;
            }
        };
        let file = match read(&path, &name, previous) {
            Ok(file) => file,
            // Removed since the directory was listed. A symlink without a target, which may be on a file system that is
            // not mounted, is not removed.
            Err(_) if is_removed(&path) => continue,
            Err(error) => File::unusable(name, error.to_string()),
        };
        total_bytes += file.stamp.size_bytes();
        if total_bytes > MAX_TOTAL_BYTES {
            return Err(format!("the manifests exceed {} MiB in total", MAX_TOTAL_BYTES >> 20));
        }
        total_objects += file.content.as_ref().map_or(0, |manifests| manifests.len());
        if total_objects > MAX_TOTAL_OBJECTS {
            return Err(format!("the directory has more than {MAX_TOTAL_OBJECTS} objects"));
        }
        scan.files.push(file);
    }
    Ok(scan)
}

/// Whether a file of this name is read.
fn is_manifest(name: &str) -> bool {
    EXTENSIONS.iter().any(|extension| name.ends_with(extension)) && !name.starts_with('.')
}

/// Whether a change of an entry of this name can change a manifest.
pub fn concerns(name: &str) -> bool {
    is_manifest(name) || name == MOUNTED
}

/// Reads a regular file, also through a symlink. Opening it does not block if it is a FIFO.
fn read(path: &Path, name: &str, previous: &[File]) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC).bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    let metadata = opened.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("this is not a regular file"));
    }
    check_mode(&metadata).map_err(io::Error::other)?;
    let (stamp, too_large) = (Stamp::of(&metadata), || {
        io::Error::other(format!("the file exceeds {} MiB; split it", MAX_FILE_BYTES >> 20))
    });
    let is_recent = stamp.is_recent();
    let known = previous.iter().find(|file| file.name == name);
    if let Some(known) = known.filter(|known| known.stamp == stamp && !known.is_recent) {
        return Ok(known.clone());
    }
    if stamp.size_bytes() > MAX_FILE_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(too_large());
    }
    let digest = Sha256::digest(&bytes).into();
    let known = previous.iter().find(|file| file.digest == digest).map(|file| file.content.clone());
    let content = known.unwrap_or_else(|| Ok(manifests::parse(&bytes)?.into()));
    Ok(File { name: name.to_owned(), stamp, is_recent, digest, content })
}

/// Checks that not every user may change what the master applies with all permissions.
fn check_mode(metadata: &Metadata) -> Result<(), String> {
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    Err(format!("not applied: every user may write here (mode {mode:o}); run `chmod o-w`"))
}

/// Whether the name no longer exists, not even as a symlink.
fn is_removed(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn is_left_over(name: &str) -> bool {
    let (beginnings, ends) = LEFT_OVER;
    beginnings.iter().any(|beginning| name.starts_with(beginning))
        || ends.iter().any(|end| name.ends_with(end))
}
