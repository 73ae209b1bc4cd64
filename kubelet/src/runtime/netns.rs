//! Network namespaces: which one a process is in, and work inside one.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::os::unix::fs::MetadataExt as _;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace, held open.
pub struct Namespace {
    file: File,
    /// Its number, which no other has while this one is there.
    pub number: u64,
}

impl Namespace {
    /// That of a process.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn of(pid: u32) -> io::Result<Self> {
        let file = File::open(format!("/proc/{pid}/ns/net"))?;
        let number = file.metadata()?.ino();
        Ok(Self { file, number })
    }

    /// The same, unless it is the very one of the host, which is no pod's.
    ///
    /// # Errors
    /// When the process is gone, or in the host's.
    pub fn of_pod(pid: u32) -> io::Result<Self> {
        let found = Self::of(pid)?;
        if found.number == std::fs::metadata("/proc/self/ns/net")?.ino() {
            return Err(io::Error::other(format!("process {pid} is in the host's network")));
        }
        Ok(found)
    }

    /// Has this thread go in, for good.
    ///
    /// # Errors
    /// When the kernel does not let it.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// As the kernel is told of it, for as long as this is there.
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Does something inside, on a thread of its own, because a thread that has gone in is of no other use.
    ///
    /// # Errors
    /// Those of the work, and when the kernel does not let it in.
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

/// The number of the namespace that a process is in.
///
/// # Errors
/// When the process is gone.
pub fn number_of(pid: u32) -> io::Result<u64> {
    Ok(std::fs::metadata(format!("/proc/{pid}/ns/net"))?.ino())
}
