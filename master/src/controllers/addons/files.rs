//! Scans the add-on directory: which files it has, and which objects these contain.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

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
pub const MAX_TOTAL_BYTES: usize = 64 << 20;
/// The permission bit with which every user may write.
const WRITABLE_BY_OTHERS: u32 = 0o002;

/// A file of the directory.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    pub name: String,
    /// SHA-256 of the bytes. Zero if they cannot be read.
    pub digest: [u8; 32],
    /// The manifests in their order, or why the file cannot be used.
    pub content: Result<Arc<[Manifest]>, Arc<str>>,
}

/// Names and digests of all files.
pub type Fingerprint = Vec<(String, [u8; 32])>;

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

    /// What distinguishes this scan from another one.
    pub fn fingerprint(&self) -> Fingerprint {
        self.files.iter().map(|file| (file.name.clone(), file.digest)).collect()
    }
}

/// Scans a directory. Files with the content of the `previous` scan are not parsed again.
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
        let name = name.to_string_lossy();
        if EXTENSIONS.iter().any(|extension| name.ends_with(extension)) && !name.starts_with('.') {
            names.push(name.into_owned());
        } else if !is_left_over(&name) {
            scan.skipped.insert(format!(
                "{name}: ignored: manifests end in .json, .yaml or .yml, and begin with no dot"
            ));
        }
        if names.len() > MAX_FILES {
            return Err(format!("the directory has more than {MAX_FILES} manifests"));
        }
    }
    names.sort();
    let mut total_bytes = 0;
    for name in names {
        let path = directory.join(&name);
        let file = match read(&path) {
            Ok(bytes) => {
                total_bytes += bytes.len();
                if total_bytes > MAX_TOTAL_BYTES {
                    return Err(format!("the manifests exceed {} MiB in total", MAX_TOTAL_BYTES >> 20));
                }
                parsed(name, &bytes, previous)
            }
            // Removed since the directory was listed. A symlink without a target, which may be on a file system that is
            // not mounted, is not removed.
            Err(_) if is_removed(&path) => continue,
            Err(error) => File { name, digest: [0; 32], content: Err(error.to_string().into()) },
        };
        scan.files.push(file);
    }
    Ok(scan)
}

fn parsed(name: String, bytes: &[u8], previous: &[File]) -> File {
    let digest = Sha256::digest(bytes).into();
    let known = previous.iter().find(|file| file.digest == digest).map(|file| file.content.clone());
    let content = known.unwrap_or_else(|| Ok(manifests::parse(bytes)?.into()));
    File { name, digest, content }
}

/// Reads a regular file, also through a symlink.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("this is not a regular file"));
    }
    check_mode(&metadata).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(format!("the file exceeds {} MiB; split it", MAX_FILE_BYTES >> 20)));
    }
    Ok(bytes)
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
