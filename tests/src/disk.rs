//! A small disk for a directory, which can be filled to the last byte.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A disk, which goes with the value: before the folder that it is in.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
}

impl Disk {
    /// One of so many megabytes, at a path where nothing is yet.
    pub fn at(path: &Path, megabytes: u32) -> Self {
        fs::create_dir_all(path).unwrap();
        let options = CString::new(format!("size={megabytes}m,mode=700")).unwrap();
        mount("coracle-test", path, "tmpfs", MountFlags::empty(), Some(options.as_c_str())).unwrap();
        Self { path: path.to_owned() }
    }

    /// Fills it.
    pub fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.ballast()).unwrap();
        for size in [64 * 1024, 4096, 512, 1] {
            let piece = vec![0; size];
            while file.write_all(&piece).is_ok() {}
        }
    }

    /// Whether it is filled.
    pub fn is_full(&self) -> bool {
        self.ballast().exists()
    }

    /// Gives the room back.
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
