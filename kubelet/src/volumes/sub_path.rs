//! subPath mounts: opens a path inside a volume without leaving it through symlinks, and binds it to a path that
//! cannot change.
//!
//! Between the kubelet's check and the engine's mount, a container that shares the volume could replace the path by
//! a symlink. Therefore the kubelet opens the path once below the volume's root. It binds the opened file to a path
//! that only the kubelet can write.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::error::at;
use super::layout::make_private;
use super::mounting;

/// Maximum number of retries of a lookup that a concurrent rename disturbed.
const LOOKUPS: usize = 16;

/// A subPath of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SubPath {
    /// Root of the volume on the host.
    pub root: PathBuf,
    /// The subPath, as the pod names it.
    pub part: String,
    /// Target of the bind mount.
    pub target_path: PathBuf,
    /// Whether only the kubelet writes to the volume. The path cannot be replaced then, and missing paths are not
    /// created.
    pub kubelet_managed: bool,
}

/// Rejects invalid subPaths.
///
/// # Errors
/// If the subPath cannot be mounted. The error is the reason, for the author of the pod.
pub(super) fn check(part: &str) -> Result<(), String> {
    let path = Path::new(part);
    if path.is_absolute() {
        return Err(format!("subPath {part:?} must be relative: leave out the first slash"));
    }
    if path.components().any(|c| c == Component::ParentDir) {
        return Err(format!("subPath {part:?} must not contain \"..\""));
    }
    Ok(())
}

impl SubPath {
    /// Binds the subPath to its target. A missing path in a writable volume is created as a directory.
    ///
    /// # Errors
    /// If the path leaves the volume or is missing, or if the kernel rejects the bind mount.
    pub fn bind(&self) -> Result<PathBuf, String> {
        check(&self.part)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.root, flags, Mode::empty())
            .map_err(|e| at("open the volume", &self.root)(e.into()).to_string())?;
        let open = match open_below(root.as_fd(), Path::new(&self.part)) {
            Err(Errno::NOENT) if self.kubelet_managed && !is_empty(&self.root) => {
                return Err(format!(
                    "subPath {:?} is not in the volume: it has {}",
                    self.part,
                    names(&self.root)
                ));
            }
            Err(Errno::NOENT) => make_below(&root, Path::new(&self.part)),
            result => result,
        };
        let open = open.map_err(|e| self.explain(e))?;
        self.bind_to_target(&open)
    }

    fn explain(&self, error: Errno) -> String {
        let part = &self.part;
        match error {
            Errno::XDEV => format!(
                "subPath {part:?} leads out of the volume: a symlink in it is absolute or climbs too far"
            ),
            Errno::LOOP => format!("subPath {part:?} contains a symlink cycle"),
            Errno::NOTDIR => format!("subPath {part:?}: a part of it is a file, not a directory"),
            Errno::NOENT => format!("subPath {part:?}: a symlink in it leads nowhere"),
            other => format!("subPath {part:?} cannot be opened: {}", io::Error::from(other)),
        }
    }

    fn bind_to_target(&self, open: &OwnedFd) -> Result<PathBuf, String> {
        let text = |e: super::error::PathError| e.to_string();
        let is = rustix::fs::fstat(open).map_err(|e| self.explain(e))?;
        if is_at(&self.target_path, &is) {
            return Ok(self.target_path.clone());
        }
        mounting::detach(&self.target_path).map_err(text)?;
        self.create_target(&is).map_err(text)?;
        let link = format!("/proc/self/fd/{}", open.as_raw_fd());
        match rustix::mount::mount_bind(link.as_str(), &self.target_path) {
            Ok(()) => Ok(self.target_path.clone()),
            Err(Errno::PERM | Errno::ACCESS) if self.kubelet_managed => {
                std::fs::read_link(&link).map_err(|e| at("read", Path::new(&link))(e).to_string())
            }
            Err(Errno::PERM | Errno::ACCESS) => {
                Err("subPath needs a kubelet with permission to mount: run it as root".to_owned())
            }
            Err(e) => Err(at("bind to", &self.target_path)(e.into()).to_string()),
        }
    }

    /// Creates the empty file or directory for the bind mount.
    fn create_target(&self, is: &Stat) -> Result<(), super::error::PathError> {
        let target_path = &self.target_path;
        let directory = rustix::fs::FileType::from_raw_mode(is.st_mode).is_dir();
        match target_path.symlink_metadata() {
            Ok(there) if there.is_dir() == directory => return Ok(()),
            Ok(there) if there.is_dir() => {
                std::fs::remove_dir(target_path).map_err(at("remove", target_path))?
            }
            Ok(_) => std::fs::remove_file(target_path).map_err(at("remove", target_path))?,
            Err(_) => {}
        }
        if directory {
            return make_private(target_path);
        }
        make_private(target_path.parent().unwrap_or(target_path))?;
        std::fs::File::create(target_path).map(drop).map_err(at("create the file", target_path))
    }
}

/// Whether the opened file is bound to the target.
fn is_at(target_path: &Path, is: &Stat) -> bool {
    target_path.symlink_metadata().is_ok_and(|there| there.ino() == is.st_ino && there.dev() == is.st_dev)
}

/// Opens a path below a directory without leaving it.
fn open_below(root: BorrowedFd<'_>, part: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let part = if part.as_os_str().is_empty() { Path::new(".") } else { part };
    for _ in 0..LOOKUPS {
        match rustix::fs::openat2(root, part, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // Caused by a concurrent rename.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS) => return open_below_by_name(root, part),
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// Fallback for kernels before 5.6: resolves the path, then opens its components without following symlinks.
fn open_below_by_name(root: BorrowedFd<'_>, part: &Path) -> Result<OwnedFd, Errno> {
    let errno = |e: io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
    let top = std::fs::read_link(format!("/proc/self/fd/{}", root.as_raw_fd())).map_err(errno)?;
    let real = top.join(part).canonicalize().map_err(errno)?;
    let below = real.strip_prefix(&top).map_err(|_| Errno::XDEV)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut open = rustix::fs::openat(root, ".", flags, Mode::empty())?;
    for name in below.components() {
        open = rustix::fs::openat(&open, name.as_os_str(), flags, Mode::empty())?;
        if rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&open)?.st_mode).is_symlink() {
            return Err(Errno::XDEV);
        }
    }
    Ok(open)
}

/// Creates missing directories with the mode of the volume's root.
fn make_below(root: &OwnedFd, part: &Path) -> Result<OwnedFd, Errno> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(root)?.st_mode & 0o7777);
    let mut made = PathBuf::new();
    let mut above = open_below(root.as_fd(), Path::new("."))?;
    for name in part.components().map(Component::as_os_str).filter(|name| *name != OsStr::new(".")) {
        made.push(name);
        let open = match open_below(root.as_fd(), &made) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(&above, name, mode) {
                    Ok(()) => set_mode(&above, name, mode)?,
                    Err(Errno::EXIST) => {}
                    Err(e) => return Err(e),
                }
                open_below(root.as_fd(), &made)
            }
            result => result,
        };
        above = open?;
    }
    Ok(above)
}

/// Sets the mode separately, because the umask would restrict it.
fn set_mode(above: &OwnedFd, name: &OsStr, mode: Mode) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = rustix::fs::openat(above, name, flags, Mode::empty())?;
    rustix::fs::fchmod(&open, mode)
}

fn is_empty(directory: &Path) -> bool {
    visible(directory).next().is_none()
}

fn names(directory: &Path) -> String {
    let mut names: Vec<String> = visible(directory).collect();
    names.sort();
    names.join(", ")
}

/// The entries of a kubelet-managed volume that a container sees.
fn visible(directory: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|name| !name.starts_with(".."))
}

#[cfg(test)]
mod tests;
