//! Where the names lie that lead to a file: the links on the way as well as the file itself.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Links followed before a path counts as leading in circles; the kernel's own limit.
const LINKS_LIMIT: usize = 40;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The directory, without links.
    pub directory: PathBuf,
    /// The name.
    pub name: OsString,
}

impl Place {
    /// The path of the two.
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }
}

/// What a path leads to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// Whatever can change where it leads: each link, the last name, or the first that is missing.
    pub places: BTreeSet<Place>,
    /// The end, when there is one.
    pub end: Option<PathBuf>,
}

/// Follows a path link by link.
///
/// # Errors
/// When a directory on the way may not be searched, or links lead in circles.
pub(super) fn follow(path: &Path) -> io::Result<Way> {
    let mut way = Way::default();
    let mut at = PathBuf::from("/");
    let mut rest: Vec<OsString> = names(&std::path::absolute(path)?);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let place = Place { directory: at.clone(), name };
        let next = place.path();
        let metadata = match std::fs::symlink_metadata(&next) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                way.places.insert(place);
                return Ok(way);
            }
            Err(error) => return Err(error),
        };
        if metadata.is_symlink() {
            links += 1;
            if links > LINKS_LIMIT {
                return Err(io::Error::other("its links lead in circles"));
            }
            let target = std::fs::read_link(&next)?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            rest.extend(names(&target));
            way.places.insert(place);
            continue;
        }
        if rest.is_empty() {
            way.places.insert(place);
        }
        at = next;
    }
    way.end = Some(at);
    Ok(way)
}

/// The names of a path, last first; a step up is `..`.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    });
    names.collect()
}
