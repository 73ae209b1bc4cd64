//! Stores the node name in the root directory. Containers have it as a label, so a kubelet with another name would
//! not find them.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// The file name.
const FILE: &str = "node";

/// The stored node name, or `None` if there is none, as in directories of older versions.
///
/// # Errors
/// If the file cannot be read.
pub fn kept_name(root_dir: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(root_dir.join(FILE)) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|name| !name.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stores the node name atomically.
///
/// # Errors
/// If the file cannot be written, for example on a full disk.
pub fn keep_name(root_dir: &Path, name: &str) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(root_dir)?;
    writeln!(file, "{name}")?;
    file.as_file().sync_all()?;
    file.persist(root_dir.join(FILE))?;
    File::open(root_dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    //! Tests that the stored name is read back.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn stored_node_name_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(kept_name(folder.path()).unwrap(), None);
        for name in ["worker-1", "a"] {
            keep_name(folder.path(), name).unwrap();
            assert_eq!(kept_name(folder.path()).unwrap().as_deref(), Some(name));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::write(folder.path().join(FILE), "").unwrap();
        assert_eq!(kept_name(folder.path()).unwrap(), None);
        assert!(kept_name(&folder.path().join(FILE)).is_err());
    }
}
