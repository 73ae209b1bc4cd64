//! Linux network namespaces: finds that of a process, and runs functions in it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::os::unix::fs::MetadataExt as _;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// An open network namespace.
pub struct Namespace {
    file: File,
    /// The inode number. It is unique while the namespace exists.
    pub number: u64,
}

impl Namespace {
    /// The network namespace of a process.
    ///
    /// # Errors
    /// If the process does not exist.
    pub fn of(pid: u32) -> io::Result<Self> {
        let file = File::open(format!("/proc/{pid}/ns/net"))?;
        let number = file.metadata()?.ino();
        Ok(Self { file, number })
    }

    /// The network namespace of a process, unless it is that of the host.
    ///
    /// # Errors
    /// If the process does not exist or is in the host's namespace.
    pub fn of_pod(pid: u32) -> io::Result<Self> {
        let found = Self::of(pid)?;
        if found.number == std::fs::metadata("/proc/self/ns/net")?.ino() {
            return Err(io::Error::other(format!("process {pid} is in the host's network")));
        }
        Ok(found)
    }

    /// Moves the current thread into the namespace permanently.
    ///
    /// # Errors
    /// If the kernel denies it.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// The file descriptor. It is valid while this value exists.
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Runs a function in the namespace. It runs on a new thread, because a thread cannot leave the namespace.
    ///
    /// # Errors
    /// If the function fails, or the kernel does not allow the thread to enter the namespace.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let inside =
                std::thread::Builder::new().name("pod-network".to_owned()).spawn_scoped(scope, || {
                    self.enter()?;
                    work()
                })?;
            inside
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the thread inside the pod's network ended")))
        })
    }
}

/// The inode number of a process's network namespace.
///
/// # Errors
/// If the process does not exist.
pub fn number_of(pid: u32) -> io::Result<u64> {
    Ok(std::fs::metadata(format!("/proc/{pid}/ns/net"))?.ino())
}
