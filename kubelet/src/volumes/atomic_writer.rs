//! Atomic writer for volumes: readers see either the old or the new set of files, even if the kubelet is interrupted.
//!
//! ```text
//! name    -> ..data/name              what a container reads
//! ..data  -> ..2026_11_21_10_00_00.5  swapped by one rename
//! ..2026_11_21_10_00_00.5/name        the files
//! ```
//! The steps are planned from the current content, so that the next run completes an interrupted one.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;

use super::content::{File, Files};
use super::error::{PathError, at};
use super::teardown;

/// The symlink that is swapped.
const DATA: &str = "..data";
/// Temporary name of the new symlink.
const NEXT: &str = "..data_tmp";

/// Makes a volume contain exactly these files. Returns true if that changed the volume. `group` is the pod's
/// `fsGroup`.
pub(super) fn write(directory: &Path, files: &Files, group: Option<u32>) -> Result<bool, PathError> {
    let seen = inspect(directory, files, group)?;
    let name = new_name(directory);
    for step in plan(&seen, files, &name) {
        take(directory, files, group, &step)?;
    }
    Ok(!seen.same)
}

/// Whether the volume has been filled before.
pub(super) fn is_filled(directory: &Path) -> bool {
    current(directory).is_some()
}

/// The directory that `..data` points to. A symlink that leads outside the volume is ignored and never followed.
fn current(directory: &Path) -> Option<String> {
    let target = std::fs::read_link(directory.join(DATA)).ok()?;
    let name = target.to_str()?.to_owned();
    let is = child(directory, &name).ok()?.symlink_metadata().ok()?;
    (name.starts_with("..") && name != DATA && name != NEXT && is.is_dir()).then_some(name)
}

/// The path of a name directly in the volume.
///
/// `Path::join` is not safe for names from the disk: an absolute name replaces the volume, and `..` leaves it.
fn child(directory: &Path, name: &str) -> Result<PathBuf, PathError> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(directory.join(only)),
        _ => Err(at("stay inside", directory)(ErrorKind::InvalidInput.into())),
    }
}

/// Current content of a volume.
#[derive(Debug, Default)]
struct Seen {
    /// Target of `..data`.
    current: Option<String>,
    /// Whether the files equal the wanted ones.
    same: bool,
    /// Names that link into `..data`.
    visible: BTreeSet<String>,
    /// Other entries, which an interrupted run left.
    strays: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step<'a> {
    /// Remove an entry.
    Remove(String),
    /// Create the directory for the new files.
    Directory(&'a str),
    /// Write a file into the directory.
    File(&'a str, &'a str),
    /// Create the temporary symlink to the directory.
    Point(&'a str),
    /// Rename the temporary symlink to `..data`.
    Swap,
    /// Create the visible symlink of a name.
    Show(String),
}

fn plan<'a>(seen: &Seen, files: &'a Files, name: &'a str) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = seen.strays.iter().cloned().map(Step::Remove).collect();
    if !seen.same {
        steps.push(Step::Directory(name));
        steps.extend(files.keys().map(|path| Step::File(name, path)));
        steps.extend([Step::Point(name), Step::Swap]);
    }
    let wanted: BTreeSet<&str> = files.keys().map(|path| top(path)).collect();
    let hidden = wanted.iter().filter(|name| !seen.visible.contains(**name));
    steps.extend(hidden.map(|name| Step::Show((*name).to_owned())));
    let stale = seen.visible.iter().filter(|name| !wanted.contains(name.as_str()));
    steps.extend(stale.cloned().map(Step::Remove));
    if !seen.same {
        steps.extend(seen.current.clone().map(Step::Remove));
    }
    steps
}

/// The first component of a path.
fn top(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

fn inspect(directory: &Path, files: &Files, group: Option<u32>) -> Result<Seen, PathError> {
    let mut seen = Seen::default();
    let target = |name: &str| {
        let target = std::fs::read_link(directory.join(name)).ok()?;
        Some(target.to_str()?.to_owned())
    };
    seen.current = current(directory);
    for entry in std::fs::read_dir(directory).map_err(at("read", directory))? {
        let name = entry.map_err(at("read", directory))?.file_name();
        let name = name.to_string_lossy().into_owned();
        let foreign = name == DATA && seen.current.is_none();
        if !foreign && (name == DATA || Some(&name) == seen.current.as_ref()) {
            continue;
        }
        let leads = !name.starts_with("..") && target(&name).is_some_and(|to| to == format!("{DATA}/{name}"));
        if leads {
            seen.visible.insert(name);
        } else {
            seen.strays.push(name);
        }
    }
    if let Some(current) = &seen.current {
        seen.same = same(&child(directory, current)?, files, group)?;
    }
    Ok(seen)
}

/// Whether a directory contains exactly these files, with content, mode and owner.
fn same(directory: &Path, files: &Files, group: Option<u32>) -> Result<bool, PathError> {
    let mut left = files.len();
    let mut directories = vec![directory.to_owned()];
    while let Some(open) = directories.pop() {
        for entry in std::fs::read_dir(&open).map_err(at("read", &open))? {
            let path = entry.map_err(at("read", &open))?.path();
            let is = path.symlink_metadata().map_err(at("stat", &path))?;
            if is.is_dir() {
                directories.push(path);
                continue;
            }
            let name = path.strip_prefix(directory).ok().and_then(Path::to_str);
            let Some(file) = name.and_then(|name| files.get(name)) else { return Ok(false) };
            let owned = group.is_none_or(|group| is.gid() == group)
                && is.uid() == file.user.unwrap_or_else(|| rustix::process::geteuid().as_raw());
            if !is.is_file()
                || is.mode() & 0o7777 != mode(file, group)
                || !owned
                || is.len() != file.data.len() as u64
                || std::fs::read(&path).map_err(at("read", &path))? != file.data
            {
                return Ok(false);
            }
            left -= 1;
        }
    }
    Ok(left == 0)
}

fn take(directory: &Path, files: &Files, group: Option<u32>, step: &Step<'_>) -> Result<(), PathError> {
    match step {
        Step::Remove(name) => remove(&child(directory, name)?),
        Step::Directory(name) => make_directory(&child(directory, name)?, group),
        Step::File(name, path) => match files.get(*path) {
            Some(file) => write_file(&child(directory, name)?, path, file, group),
            None => Ok(()),
        },
        Step::Point(name) => {
            let next = directory.join(NEXT);
            symlink(name, &next).map_err(at("link", &next))
        }
        Step::Swap => {
            let data = directory.join(DATA);
            std::fs::rename(directory.join(NEXT), &data).map_err(at("swap", &data))
        }
        Step::Show(name) => {
            let path = child(directory, name)?;
            symlink(format!("{DATA}/{name}"), &path).map_err(at("link", &path))
        }
    }
}

fn remove(path: &Path) -> Result<(), PathError> {
    match std::fs::symlink_metadata(path) {
        Ok(is) if is.is_dir() => teardown::remove_tree(path),
        Ok(_) => std::fs::remove_file(path).map_err(at("remove", path)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(at("stat", path)(e)),
    }
}

fn write_file(root: &Path, relative: &str, file: &File, group: Option<u32>) -> Result<(), PathError> {
    for (slash, _) in relative.match_indices('/') {
        make_directory(&root.join(&relative[..slash]), group)?;
    }
    let path = root.join(relative);
    let mut open = std::fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(at("create the file", &path))?;
    open.write_all(&file.data).map_err(at("write", &path))?;
    if group.is_some() || file.user.is_some() {
        chown(&path, file.user, group).map_err(at("change the owner of", &path))?;
    }
    // The mode is set separately, because the umask would reduce it.
    open.set_permissions(Permissions::from_mode(mode(file, group))).map_err(at("set the mode of", &path))
}

fn make_directory(path: &Path, group: Option<u32>) -> Result<(), PathError> {
    match std::fs::create_dir(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(()),
        result => result.map_err(at("create the directory", path))?,
    }
    if group.is_some() {
        chown(path, None, group).map_err(at("change the group of", path))?;
    }
    let mode = if group.is_some() { 0o2755 } else { 0o755 };
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(at("set the mode of", path))
}

/// The mode of a file. If a group owns the file, the group may read it.
fn mode(file: &File, group: Option<u32>) -> u32 {
    if group.is_some() { file.mode | 0o440 } else { file.mode }
}

/// Returns the name of a directory that does not exist in the volume.
fn new_name(directory: &Path) -> String {
    let mut now = Timestamp::now();
    loop {
        let name = format!("..{}.{}", now.strftime("%Y_%m_%d_%H_%M_%S"), now.subsec_nanosecond());
        if directory.join(&name).symlink_metadata().is_err() {
            return name;
        }
        now = now.saturating_add(jiff::SignedDuration::from_nanos(1)).unwrap_or(now);
    }
}

#[cfg(test)]
mod tests;
