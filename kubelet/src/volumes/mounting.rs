//! Mounts tmpfs volumes, and unmounts volumes.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use super::error::{PathError, at};

/// Options of a tmpfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// Size limit in bytes, or `None` for half of the memory.
    pub size_bytes: Option<u64>,
    /// Whether the volume contains secrets. It is then mounted with nosuid, nodev, and noswap if the kernel
    /// supports that.
    pub secret: bool,
}

/// Result of mounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mounted {
    /// The volume was mounted by this call.
    New,
    /// The volume was already mounted.
    Before,
    /// The process has no permission to mount.
    NotPermitted,
}

/// Mounts a tmpfs on a directory unless one is mounted.
pub(super) fn memory(path: &Path, memory: Memory) -> Result<Mounted, PathError> {
    if is_mount(path)? {
        return Ok(Mounted::Before);
    }
    let size = memory.size_bytes.map(|bytes| format!("size={bytes}")).unwrap_or_default();
    let flags = if memory.secret { MountFlags::NOSUID | MountFlags::NODEV } else { MountFlags::empty() };
    let mount = |options: String| -> Result<(), Errno> {
        let options = std::ffi::CString::new(options).map_err(|_| Errno::INVAL)?;
        rustix::mount::mount(c"tmpfs", path, c"tmpfs", flags, &*options)
    };
    let result = match memory.secret {
        // Kernels before 6.4 do not support `noswap`.
        true => match mount(format!("noswap,{size}")) {
            Err(Errno::INVAL) => mount(size),
            result => result,
        },
        false => mount(size),
    };
    match result {
        Ok(()) => Ok(Mounted::New),
        Err(Errno::PERM | Errno::ACCESS) => Ok(Mounted::NotPermitted),
        Err(e) => Err(at("mount memory on", path)(e.into())),
    }
}

/// Unmounts a path and everything below it. It is not an error if nothing is mounted.
pub(super) fn detach(path: &Path) -> Result<(), PathError> {
    // With shared propagation, unmounting would also unmount the host's mounts below it.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    match rustix::mount::mount_change(path, private) {
        Ok(()) | Err(Errno::NOENT | Errno::INVAL) => {}
        Err(e) => return Err(at("unmount", path)(e.into())),
    }
    match rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(Errno::NOENT | Errno::INVAL) => Ok(()),
        Err(e) => Err(at("unmount", path)(e.into())),
    }
}

/// Whether a directory is on another file system than its parent.
pub(super) fn is_mount(path: &Path) -> Result<bool, PathError> {
    let device = |path: &Path| -> Result<u64, PathError> {
        path.symlink_metadata().map(|is| is.dev()).map_err(at("stat", path))
    };
    let above =
        path.parent().ok_or_else(|| at("find the parent of", path)(io::ErrorKind::NotFound.into()))?;
    Ok(device(path)? != device(above)?)
}
