//! How much of the disk a pod's `emptyDir` volumes take.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Bytes of a block as `stat` counts them.
const BLOCK: u64 = 512;
/// Directories held open on the way down; what lies deeper is not counted.
const MAX_DEPTH: usize = 128;

/// What an `emptyDir` on disk takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The volume's name.
    pub volume: String,
    /// Bytes on disk.
    pub used_bytes: u64,
    /// Its `sizeLimit`.
    pub limit_bytes: u64,
    /// The same as the pod spells it.
    pub limit: String,
}

/// Bytes that a tree takes on disk, its own file system only; files that vanish meanwhile count as nothing.
pub(super) fn of(top: &Path) -> Result<u64, Errno> {
    let open = match open_directory(CWD, top) {
        Err(Errno::NOENT) => return Ok(0),
        result => result?,
    };
    let is = rustix::fs::fstat(&open)?;
    let mut count = Count { device: is.st_dev, seen: HashSet::new(), blocks: blocks(&is) };
    count.below(open, 0)?;
    Ok(count.blocks * BLOCK)
}

struct Count {
    device: u64,
    /// Files with several names count once.
    seen: HashSet<u64>,
    blocks: u64,
}

impl Count {
    fn below(&mut self, directory: OwnedFd, depth: usize) -> Result<(), Errno> {
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(is) = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let is_directory = FileType::from_raw_mode(is.st_mode).is_dir();
            if is.st_dev != self.device || (!is_directory && is.st_nlink > 1 && !self.seen.insert(is.st_ino))
            {
                continue;
            }
            self.blocks += blocks(&is);
            if is_directory
                && depth < MAX_DEPTH
                && let Ok(open) = open_directory(&directory, name)
            {
                self.below(open, depth + 1)?;
            }
        }
        Ok(())
    }
}

fn blocks(is: &Stat) -> u64 {
    u64::try_from(is.st_blocks).unwrap_or_default()
}

fn open_directory<P: rustix::path::Arg>(at: impl std::os::fd::AsFd, path: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

#[cfg(test)]
mod tests;
