//! Resolves a path, and records every name whose change can alter the result: symlinks, the last name, or a missing
//! name.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Maximum number of symlinks that are followed; the limit of the kernel.
const LINKS_LIMIT: usize = 40;

/// A name in a directory that is watched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchedName {
    /// The directory, without symlinks.
    pub directory: PathBuf,
    pub name: OsString,
}

impl WatchedName {
    /// The full path.
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ResolvedPath {
    /// All names that affect the resolution: symlinks, the last name, or the first missing one.
    pub places: BTreeSet<WatchedName>,
    /// The final path, if it exists.
    pub end: Option<PathBuf>,
}

/// Resolves a path, one symlink at a time.
///
/// # Errors
/// If a directory is not searchable, or symlinks form a cycle.
pub fn resolve(path: &Path) -> io::Result<ResolvedPath> {
    let mut resolved = ResolvedPath::default();
    let mut at = PathBuf::from("/");
    let mut rest: Vec<OsString> = names(&std::path::absolute(path)?);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let place = WatchedName { directory: at.clone(), name };
        let next = place.path();
        let metadata = match std::fs::symlink_metadata(&next) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                resolved.places.insert(place);
                return Ok(resolved);
            }
            Err(error) => return Err(error),
        };
        if metadata.is_symlink() {
            links += 1;
            if links > LINKS_LIMIT {
                return Err(io::Error::other("its symlinks form a cycle"));
            }
            let target = std::fs::read_link(&next)?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            rest.extend(names(&target));
            resolved.places.insert(place);
            continue;
        }
        if rest.is_empty() {
            resolved.places.insert(place);
        }
        at = next;
    }
    resolved.end = Some(at);
    Ok(resolved)
}

/// The components of a path, last first. A parent directory is `..`.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    });
    names.collect()
}
