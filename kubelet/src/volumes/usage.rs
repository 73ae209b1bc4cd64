//! Measures the disk usage of `emptyDir` volumes, and of other directories.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
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

/// What a directory tree or a set of files uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    pub bytes: u64,
    pub inodes: u64,
}

impl DiskUse {
    /// The sum of two usages.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}

/// The disk usage of a directory tree on its own file system; none if it does not exist. Files that disappear meanwhile
/// are not counted. Blocks.
///
/// # Errors
/// If a directory cannot be read.
pub fn disk_use(top: &Path) -> Result<DiskUse, Errno> {
    let open = match open_directory(CWD, top) {
        Err(Errno::NOENT) => return Ok(DiskUse::default()),
        result => result?,
    };
    let is = rustix::fs::fstat(&open)?;
    let mut count = Count { device: is.st_dev, seen: HashSet::new(), blocks: blocks(&is), inodes: 1 };
    count.below(open, 0)?;
    Ok(DiskUse { bytes: count.blocks * BLOCK, inodes: count.inodes })
}

/// The disk usage of a file and of all files with the same path and a suffix, such as rotated logs. None if they cannot
/// be read. Blocks.
pub fn disk_use_of_files(path: &Path) -> DiskUse {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return DiskUse::default() };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_one =
        |entry: &std::fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes());
    let files = entries.filter(is_one).filter_map(|entry| entry.metadata().ok());
    let of_file = |file: std::fs::Metadata| DiskUse { bytes: file.blocks() * BLOCK, inodes: 1 };
    files.map(of_file).fold(DiskUse::default(), DiskUse::plus)
}

struct Count {
    device: u64,
    /// Inodes of files with several links, which count once.
    seen: HashSet<u64>,
    blocks: u64,
    inodes: u64,
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
            self.inodes += 1;
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

    use std::path::Path;

    use super::{DiskUse, disk_use, disk_use_of_files};

    fn of(top: &Path) -> Result<u64, rustix::io::Errno> {
        disk_use(top).map(|used| used.bytes)
    }

    #[test]
    fn inodes_and_rotated_files_are_counted() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("d")).unwrap();
        for name in ["d/x-json.log", "d/x-json.log.1", "d/other"] {
            std::fs::write(root.path().join(name), vec![1; 1 << 16]).unwrap();
        }
        assert_eq!(disk_use(root.path()).unwrap().inodes, 5);
        let logs = disk_use_of_files(&root.path().join("d/x-json.log"));
        assert_eq!(logs.inodes, 2);
        assert!(logs.bytes >= 2 << 16 && logs.bytes < 3 << 16, "{logs:?}");
        assert_eq!(disk_use_of_files(Path::new("/not/there/x")), DiskUse::default());
    }

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
