//! Skipped entries of a manifest directory: names without a manifest extension, and symlinks without a target.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::scan::is_manifest;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SkippedEntry {
    /// Path below the source's path.
    pub path: PathBuf,
    /// Reason why the entry is skipped.
    pub why: Why,
}

/// Reason why an entry is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The file name has no manifest extension.
    Ending,
    /// The entry is a directory. Directories are not read recursively.
    Directory,
    /// The entry is a symlink whose target does not exist.
    Dangling,
}

impl fmt::Display for SkippedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.why {
            Why::Ending => write!(
                f,
                "{path}: not read: manifests end in .json, .yaml or .yml; rename it, or move it out of the directory"
            ),
            Why::Directory => write!(
                f,
                "{path}: not read: directories are not read recursively; move its manifests one level up"
            ),
            Why::Dangling => {
                write!(
                    f,
                    "{path}: not read: the symbolic link has no target; restore the target, or remove the link"
                )
            }
        }
    }
}

/// The reason why an entry is skipped. `None` for manifests, and for temporary files of editors and mounted
/// ConfigMaps.
pub(super) fn of(name: &OsStr, path: &Path) -> Option<SkippedEntry> {
    if is_left_over(name) {
        return None;
    }
    let skipped = |why| Some(SkippedEntry { path: path.to_owned(), why });
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // The entry may have been removed since it was listed.
            let is_link = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
            if is_link { skipped(Why::Dangling) } else { None }
        }
        _ if is_manifest(name) => None,
        Ok(metadata) if metadata.is_dir() => skipped(Why::Directory),
        Ok(_) | Err(_) => skipped(Why::Ending),
    }
}

/// Whether the name is that of a temporary file. These are hidden files (`.web.yaml.swp`, `..data` of a ConfigMap
/// volume), backups (`web.yaml~`, `web.yaml.bak`) and emacs locks (`#web.yaml#`). Editors create them on each save.
fn is_left_over(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b".") || name.starts_with(b"#") || name.ends_with(b"~") || name.ends_with(b".bak")
}

#[cfg(test)]
mod tests {
    //! Tests of reported entries and their reasons.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

    #[test]
    fn every_skipped_manifest_has_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["web", "web.yaml.j2", "web.YAML", "a.yaml", ".web.yaml.swp", "web.yaml~", "a.yaml.bak"] {
            fs::write(folder.path().join(file), "x").unwrap();
        }
        fs::create_dir(folder.path().join("more")).unwrap();
        for link in ["gone.yaml", "gone", ".gone"] {
            std::os::unix::fs::symlink("nowhere", folder.path().join(link)).unwrap();
        }
        std::os::unix::fs::symlink("a.yaml", folder.path().join("link.yaml")).unwrap();
        let mut found: Vec<(String, Why)> = fs::read_dir(folder.path())
            .unwrap()
            .filter_map(|entry| {
                let entry = entry.unwrap();
                let skipped = of(&entry.file_name(), &entry.path())?;
                Some((entry.file_name().into_string().unwrap(), skipped.why))
            })
            .collect();
        found.sort();
        let expected = [
            ("gone", Why::Dangling),
            ("gone.yaml", Why::Dangling),
            ("more", Why::Directory),
            ("web", Why::Ending),
            ("web.YAML", Why::Ending),
            ("web.yaml.j2", Why::Ending),
        ];
        assert_eq!(found, expected.map(|(name, why)| (name.to_owned(), why)));
    }
}
