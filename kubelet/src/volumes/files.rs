//! Volumes that hold files of the API: made on disk or in memory, filled and refreshed by the atomic writer.

use std::path::Path;

use k8s_openapi::api::core::v1::Volume;

use super::content::{self, Files};
use super::error::PathError;
use super::layout::make_private;
use super::mounting::{self, Memory, Mounted};
use super::{Wanted, atomic, empty_dir};

/// Files to be put into a volume.
pub(super) struct FilesVolume {
    /// The files, or why there are none.
    pub content: Result<Files, String>,
    group: Option<u32>,
    secret: bool,
}

/// The directory below `volumes/`; `None` for another kind of volume.
pub(super) fn plugin(volume: &Volume) -> Option<&'static str> {
    if volume.config_map.is_some() {
        Some("configmap")
    } else if volume.secret.is_some() {
        Some("secret")
    } else if volume.downward_api.is_some() {
        Some("downward-api")
    } else if volume.projected.is_some() {
        Some("projected")
    } else {
        None
    }
}

/// What the volume should hold; `None` for another kind of volume.
pub(super) fn plan(wanted: &Wanted<'_>, volume: &Volume, group: Option<u32>) -> Option<FilesVolume> {
    let content = content::of(wanted, volume)?;
    let secret = volume.secret.is_some() || volume.projected.is_some();
    Some(FilesVolume { content, group, secret })
}

/// What became of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It holds what it did.
    Same,
    /// It holds something new.
    Changed,
    /// What it should hold cannot be told, so that it holds what it did.
    Kept(String),
}

impl FilesVolume {
    /// Makes and fills the volume; `Ok(true)` when secrets had to go to disk because this process may not mount.
    ///
    /// # Errors
    /// The disk refuses, or the volume has never been filled and cannot be.
    pub fn make(&self, path: &Path) -> Result<bool, String> {
        let text = |e: PathError| e.to_string();
        if let Err(missing) = &self.content
            && !atomic::is_filled(path)
        {
            return Err(missing.clone());
        }
        let new = !path.exists();
        make_private(path).map_err(text)?;
        let mut on_disk = false;
        if self.secret {
            let memory = Memory { size_bytes: None, secret: true };
            on_disk = mounting::memory(path, memory).map_err(text)? == Mounted::NotPermitted;
        }
        // The directories above keep strangers out.
        let mode = if self.group.is_some() { 0o2755 } else { 0o755 };
        empty_dir::open(path, mode, self.group).map_err(text)?;
        self.fill(path).map_err(text)?;
        Ok(on_disk && new)
    }

    /// Fills a volume that was made before.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn fill(&self, path: &Path) -> Result<Outcome, PathError> {
        match &self.content {
            Ok(files) if atomic::write(path, files, self.group)? => Ok(Outcome::Changed),
            Ok(_) => Ok(Outcome::Same),
            Err(missing) => Ok(Outcome::Kept(missing.clone())),
        }
    }
}
