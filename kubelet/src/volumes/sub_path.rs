//! A part of a volume, opened so that no symlink leads out of the volume, and held by a mount so that none can later.
//!
//! Between our look at a path and the engine's, a container that shares the volume could put a symlink in its place.
//! So the part is opened once, below the volume's root, and what was opened is bound to a place that only the kubelet writes.

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

/// How often a lookup is tried again that a rename elsewhere disturbed.
const LOOKUPS: usize = 16;

/// A part of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SubPath {
    /// The volume's root on the host.
    pub root: PathBuf,
    /// The part, as the pod writes it.
    pub part: String,
    /// Where it is bound.
    pub place: PathBuf,
    /// Only the kubelet writes to the volume, so that nothing can be put in the part's place, and nothing is made.
    pub ours: bool,
}

/// Refuses what could never be a part of a volume.
///
/// # Errors
/// In words for whoever wrote the pod.
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
    /// Binds the part to its place, making it as a directory where the volume is writable and it is missing.
    ///
    /// # Errors
    /// It leads out of the volume, is missing, or the kernel refuses.
    pub fn bind(&self) -> Result<PathBuf, String> {
        check(&self.part)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.root, flags, Mode::empty())
            .map_err(|e| at("open the volume", &self.root)(e.into()).to_string())?;
        let open = match open_below(root.as_fd(), Path::new(&self.part)) {
            Err(Errno::NOENT) if self.ours && !is_empty(&self.root) => {
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
        self.hold(&open)
    }

    fn explain(&self, error: Errno) -> String {
        let part = &self.part;
        match error {
            Errno::XDEV => format!(
                "subPath {part:?} leads out of the volume: a symlink in it is absolute or climbs too far"
            ),
            Errno::LOOP => format!("subPath {part:?} goes round in circles: a symlink in it leads to itself"),
            Errno::NOTDIR => format!("subPath {part:?}: a part of it is a file, not a directory"),
            Errno::NOENT => format!("subPath {part:?}: a symlink in it leads nowhere"),
            other => format!("subPath {part:?} cannot be opened: {}", io::Error::from(other)),
        }
    }

    fn hold(&self, open: &OwnedFd) -> Result<PathBuf, String> {
        let text = |e: super::error::PathError| e.to_string();
        let is = rustix::fs::fstat(open).map_err(|e| self.explain(e))?;
        if is_at(&self.place, &is) {
            return Ok(self.place.clone());
        }
        mounting::detach(&self.place).map_err(text)?;
        self.make_place(&is).map_err(text)?;
        let link = format!("/proc/self/fd/{}", open.as_raw_fd());
        match rustix::mount::mount_bind(link.as_str(), &self.place) {
            Ok(()) => Ok(self.place.clone()),
            Err(Errno::PERM | Errno::ACCESS) if self.ours => {
                std::fs::read_link(&link).map_err(|e| at("read", Path::new(&link))(e).to_string())
            }
            Err(Errno::PERM | Errno::ACCESS) => {
                Err("subPath needs a kubelet that may mount: run it as root".to_owned())
            }
            Err(e) => Err(at("bind to", &self.place)(e.into()).to_string()),
        }
    }

    /// Makes an empty file or directory to bind to.
    fn make_place(&self, is: &Stat) -> Result<(), super::error::PathError> {
        let place = &self.place;
        let directory = rustix::fs::FileType::from_raw_mode(is.st_mode).is_dir();
        match place.symlink_metadata() {
            Ok(there) if there.is_dir() == directory => return Ok(()),
            Ok(there) if there.is_dir() => std::fs::remove_dir(place).map_err(at("remove", place))?,
            Ok(_) => std::fs::remove_file(place).map_err(at("remove", place))?,
            Err(_) => {}
        }
        if directory {
            return make_private(place);
        }
        make_private(place.parent().unwrap_or(place))?;
        std::fs::File::create(place).map(drop).map_err(at("make the file", place))
    }
}

/// True when what was opened is bound to the place.
fn is_at(place: &Path, is: &Stat) -> bool {
    place.symlink_metadata().is_ok_and(|there| there.ino() == is.st_ino && there.dev() == is.st_dev)
}

/// Opens a path below a directory without ever leaving it.
fn open_below(root: BorrowedFd<'_>, part: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let part = if part.as_os_str().is_empty() { Path::new(".") } else { part };
    for _ in 0..LOOKUPS {
        match rustix::fs::openat2(root, part, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // A rename somewhere, or a `..` that could not be followed safely just then.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS) => return open_below_by_name(root, part),
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// For kernels before 5.6: resolves by name, then opens what that named part by part, following nothing.
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

/// Makes the directories of a path that are missing, with the mode of the volume's root.
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

/// The mode is set apart: the process's umask must not narrow it.
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

/// What a container would see in a volume that the kubelet writes.
fn visible(directory: &Path) -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|name| !name.starts_with(".."))
}

#[cfg(test)]
mod tests;
