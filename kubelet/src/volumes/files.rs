//! Volumes with files from API objects: creates, fills and refreshes them with the atomic writer.

use std::path::Path;

use super::atomic_writer;
use super::content::Files;
use super::error::PathError;
use super::layout::{make_private, open};
use super::mounting::{self, Memory, Mounted};

/// A planned volume with files.
pub(super) struct FilesVolume {
    /// The files, or the reason why they are not available.
    pub content: Result<Files, String>,
    pub group: Option<u32>,
    pub is_secret: bool,
}

/// Result of filling a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The files were unchanged.
    Same,
    /// The files were updated.
    Changed,
    /// The new files are not available, so the old ones stay.
    Kept(String),
}

impl FilesVolume {
    /// Creates and fills the volume. `Ok(true)` means that secrets are on disk, because the process may not mount.
    ///
    /// # Errors
    /// If an I/O operation fails, or the first content of the volume is not available.
    pub fn make(&self, path: &Path) -> Result<bool, String> {
        let text = |e: PathError| e.to_string();
        if let Err(missing) = &self.content
            && !atomic_writer::is_filled(path)
        {
            return Err(missing.clone());
        }
        let new = !path.exists();
        make_private(path).map_err(text)?;
        let mut on_disk = false;
        if self.is_secret {
            let memory = Memory { size_bytes: None, secret: true };
            on_disk = mounting::memory(path, memory).map_err(text)? == Mounted::NotPermitted;
        }
        // The parent directories are private.
        let mode = if self.group.is_some() { 0o2755 } else { 0o755 };
        open(path, mode, self.group).map_err(text)?;
        self.fill(path).map_err(text)?;
        Ok(on_disk && new)
    }

    /// Updates the files of an existing volume.
    ///
    /// # Errors
    /// If an I/O operation fails.
    pub fn fill(&self, path: &Path) -> Result<Outcome, PathError> {
        match &self.content {
            Ok(files) if atomic_writer::write(path, files, self.group)? => Ok(Outcome::Changed),
            Ok(_) => Ok(Outcome::Same),
            Err(missing) => Ok(Outcome::Kept(missing.clone())),
        }
    }
}
