//! Removes a pod's directory without deleting anything through a mount or symlink.
//!
//! A directory that is not empty is moved to the top level and emptied there. A tree of any depth therefore needs
//! only two open directories. The kernel refuses to remove or move mount points.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::error::{Error, PathError, at};
use super::mounting::detach;

/// Unmounts everything below a directory and removes it.
pub(super) fn remove(directory: &Path) -> Result<(), Error> {
    unmount_below(directory)
        .and_then(|()| remove_tree(directory))
        .map_err(|e| Error { reason: "FailedUnmount", ..Error::pod(e.to_string()) })
}

/// Unmounts everything below a directory.
fn unmount_below(directory: &Path) -> Result<(), PathError> {
    // Only the parent is resolved. If the directory were a symlink, the mounts found would belong to another place.
    let Some((above, name)) = directory.parent().zip(directory.file_name()) else { return Ok(()) };
    let directory = match above.canonicalize() {
        Ok(above) => above.join(name),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(at("find", above)(e)),
    };
    let table = Path::new("/proc/self/mountinfo");
    let text = std::fs::read(table).map_err(at("read", table))?;
    let mut mounts: Vec<PathBuf> = mount_points(&text).filter(|p| p.starts_with(&directory)).collect();
    // Shortest path first: unmounting it includes the mounts below. They are made private first, so that the host keeps its
    // mounts.
    mounts.sort();
    mounts.iter().try_for_each(|path| detach(path))
}

/// The mount points in a mount table. Special characters are octal escapes there.
fn mount_points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    table.split(|&b| b == b'\n').filter_map(|line| {
        let escaped = line.split(|&b| b == b' ').nth(4)?;
        let mut bytes = Vec::with_capacity(escaped.len());
        let mut rest = escaped;
        while let Some((&byte, tail)) = rest.split_first() {
            let octal =
                tail.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
            match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
                Some(code) => {
                    bytes.push(code);
                    rest = &tail[3..];
                }
                None => {
                    bytes.push(byte);
                    rest = tail;
                }
            }
        }
        Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    })
}

pub(super) fn remove_tree(top: &Path) -> Result<(), PathError> {
    let failed = |e: Errno| at("remove", top)(io::Error::from(e));
    let open = match open_directory(CWD, top) {
        Ok(open) => open,
        Err(Errno::NOENT) => return Ok(()),
        Err(e) => return Err(failed(e)),
    };
    let mut moved = Moved { top: &open, next: 0 };
    loop {
        let mut empty = true;
        for name in names(&open).map_err(failed)? {
            empty = false;
            match unlink(&open, &name) {
                Ok(true) => {}
                // Its directories are moved up and handled in the next round.
                Ok(false) => moved.empty(&name).map_err(failed)?,
                Err(e) => return Err(at("remove", &top.join(name.to_string_lossy().as_ref()))(e.into())),
            }
        }
        if empty {
            break;
        }
    }
    match rustix::fs::rmdir(top) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(failed(e)),
    }
}

/// Moves directories to the top level of the tree that is being removed.
struct Moved<'a> {
    top: &'a OwnedFd,
    next: u64,
}

impl Moved<'_> {
    /// Empties a top-level directory and removes it.
    fn empty(&mut self, name: &CStr) -> Result<(), Errno> {
        let directory = open_directory(self.top, name)?;
        for child in names(&directory)? {
            if !unlink(&directory, &child)? {
                self.bring_up(&directory, &child)?;
            }
        }
        rustix::fs::unlinkat(self.top, name, AtFlags::REMOVEDIR)
    }

    fn bring_up(&mut self, from: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        loop {
            let place = format!(".removed-{}", self.next);
            self.next += 1;
            match rustix::fs::renameat_with(from, name, self.top, &*place, rustix::fs::RenameFlags::NOREPLACE)
            {
                Err(Errno::EXIST) => {}
                result => return result,
            }
        }
    }
}

/// Removes an entry. Returns `Ok(false)` for a directory that is not empty.
fn unlink(directory: &OwnedFd, name: &CStr) -> Result<bool, Errno> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(Errno::NOENT) => Ok(true),
            result => result.map(|()| true),
        },
        Err(Errno::NOENT) => Ok(true),
        result => result.map(|()| true),
    }
}

fn open_directory<P: rustix::path::Arg>(at: impl std::os::fd::AsFd, path: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

fn names(directory: &OwnedFd) -> Result<Vec<CString>, Errno> {
    Dir::read_from(directory)?
        .filter(|entry| !matches!(entry.as_ref().map(|e| e.file_name().to_bytes()), Ok(b"." | b"..")))
        .map(|entry| entry.map(|e| e.file_name().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests;
