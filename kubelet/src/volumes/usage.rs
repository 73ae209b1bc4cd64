//! Measures the disk usage of `emptyDir` volumes.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Block size of `stat`, in bytes.
const BLOCK: u64 = 512;
/// Maximum number of directories that are open at once. Deeper levels are not counted.
const MAX_DEPTH: usize = 128;

/// The disk usage of an `emptyDir`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The volume's name.
    pub volume: String,
    pub used_bytes: u64,
    /// The `sizeLimit` in bytes.
    pub limit_bytes: u64,
    /// The `sizeLimit` as the manifest writes it.
    pub limit: String,
}

/// The disk usage of a directory tree on its own file system. Files that disappear meanwhile are not counted.
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
    /// Inodes of files with several links, which count once.
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
mod tests {
    //! Tests of files that count towards usage.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use rustix::mount::MountFlags;

    use super::of;

    #[test]
    fn disk_usage_skips_hard_links_and_mounts() {
        let root = tempfile::tempdir().unwrap();
        let empty = of(root.path()).unwrap();
        std::fs::create_dir(root.path().join("d")).unwrap();
        std::fs::write(root.path().join("d/file"), vec![1; 1 << 20]).unwrap();
        let one = of(root.path()).unwrap();
        assert!(one >= empty + (1 << 20));
        std::fs::hard_link(root.path().join("d/file"), root.path().join("again")).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("file"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), root.path().join("away")).unwrap();
        assert!(of(root.path()).unwrap() < one + 65536);
        let other = root.path().join("other");
        std::fs::create_dir(&other).unwrap();
        rustix::mount::mount("none", &other, "tmpfs", MountFlags::empty(), None).unwrap();
        std::fs::write(other.join("file"), vec![1; 1 << 20]).unwrap();
        let with_mount = of(root.path());
        super::super::mounting::detach(&other).unwrap();
        assert!(with_mount.unwrap() < one + 65536);
        assert_eq!(of(&root.path().join("gone")).unwrap(), 0);
    }
}
