//! Mounts the kubelet makes itself: memory as a file system, and taking mounts off again.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use super::error::{PathError, at};

/// How a memory file system is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// Most bytes; half of the machine's memory when `None`.
    pub size_bytes: Option<u64>,
    /// It holds secrets: no set-user-id, no devices, and never on a swap device where the kernel can promise that.
    pub secret: bool,
}

/// Whether something became a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mounted {
    /// It is one now.
    New,
    /// It was one before.
    Before,
    /// This process may not mount.
    NotPermitted,
}

/// Makes a directory a memory file system unless it is one.
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
        // Kernels before 6.4 do not know `noswap`.
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

/// Takes off what is mounted there, with all that is mounted below it; nothing mounted is fine.
pub(super) fn detach(path: &Path) -> Result<(), PathError> {
    // Were it left shared, mounts of the host that show below it would be unmounted on the host too.
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

/// True when a directory lies on another file system than the one above it.
pub(super) fn is_mount(path: &Path) -> Result<bool, PathError> {
    let device = |path: &Path| -> Result<u64, PathError> {
        path.symlink_metadata().map(|is| is.dev()).map_err(at("look at", path))
    };
    let above = path.parent().ok_or_else(|| at("look above", path)(io::ErrorKind::NotFound.into()))?;
    Ok(device(path)? != device(above)?)
}
