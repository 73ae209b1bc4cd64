//! The name of the node that a directory is of, kept there: containers bear it, so that whoever has another name sees none of them.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

/// The file.
const FILE: &str = "node";

/// The name that is kept in a directory; `None` where none is, as before this was kept.
///
/// # Errors
/// When it cannot be read.
pub fn kept_name(root_dir: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(root_dir.join(FILE)) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|name| !name.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Keeps it, whole or not at all.
///
/// # Errors
/// When it cannot be written, a full disk among others.
pub fn keep_name(root_dir: &Path, name: &str) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(root_dir)?;
    writeln!(file, "{name}")?;
    file.as_file().sync_all()?;
    file.persist(root_dir.join(FILE))?;
    File::open(root_dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    //! What was kept is found.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_name_of_now_takes_the_place_of_the_one_before() {
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
