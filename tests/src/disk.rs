//! A small file system for a directory, which a test can fill completely.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A mounted file system. Drop it before the folder that contains its mount point.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
}

impl Disk {
    /// Mounts a file system of the given size at a path that does not exist yet.
    pub fn at(path: &Path, megabytes: u32) -> Self {
        fs::create_dir_all(path).unwrap();
        let options = CString::new(format!("size={megabytes}m,mode=700")).unwrap();
        mount("coracle-test", path, "tmpfs", MountFlags::empty(), Some(options.as_c_str())).unwrap();
        Self { path: path.to_owned() }
    }

    pub fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.ballast()).unwrap();
        for size in [64 * 1024, 4096, 512, 1] {
            let piece = vec![0; size];
            while file.write_all(&piece).is_ok() {}
        }
    }

    /// Adds a file, so that this many megabytes of the file system are used.
    pub fn fill_to(&self, megabytes: u64) {
        let stat = rustix::fs::statvfs(&self.path).unwrap();
        let used = (stat.f_blocks - stat.f_bfree) * stat.f_frsize;
        let missing = (megabytes << 20).saturating_sub(used);
        fs::write(self.ballast(), vec![0; usize::try_from(missing).unwrap()]).unwrap();
    }

    pub fn is_full(&self) -> bool {
        self.ballast().exists()
    }

    /// Removes the file that fills the file system, so that it has space again.
    pub fn empty(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}
