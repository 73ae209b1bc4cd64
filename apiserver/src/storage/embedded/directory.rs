//! Directory of the embedded store: lock, permissions and atomic file creation.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::failure::at_file;
use super::medium::Medium;
use super::reserve;
use crate::storage::Error;

/// Name of the store file.
pub const FILE: &str = "store.redb";
/// Lock file. It is never removed, because a lock on a removed file has no effect.
const LOCK: &str = "lock";
/// Mode of the store file. Only its owner may read it, because it contains Secrets.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// An exclusively locked store directory.
#[derive(Debug)]
pub(super) struct Directory {
    file: PathBuf,
    _lock: File,
}

impl Directory {
    /// Creates and locks the directory.
    pub(super) fn claim(path: &Path) -> Result<Self, Error> {
        let failed = |error| at_file(path, error);
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path).map_err(failed)?;
        sync(above(path))?;
        let lock_path = path.join(LOCK);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(FILE_MODE);
        let lock = options.open(&lock_path).map_err(|error| at_file(&lock_path, error))?;
        lock_or_refuse(&lock, &lock_path)?;
        let file = path.join(FILE);
        // Left over from a killed process.
        remove_if_there(&partial(&file)).map_err(failed)?;
        Ok(Self { file, _lock: lock })
    }

    /// True when the directory contains a store.
    pub(super) fn holds_store(&self) -> Result<bool, Error> {
        self.file.try_exists().map_err(|error| at_file(&self.file, error))
    }

    /// Creates the store file atomically. `make` writes its content.
    pub(super) fn place(&self, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
        place_file(&self.file, make)
    }

    /// Locks the store file itself, because another directory may contain a hard link to it.
    pub(super) fn hold(&self) -> Result<StoreLock, Error> {
        let file = File::open(&self.file).map_err(|error| at_file(&self.file, error))?;
        lock_or_refuse(&file, &self.file)?;
        Ok(StoreLock { file, path: self.file.clone() })
    }

    /// Restricts the permissions of an existing file to the owner.
    pub(super) fn restrict_permissions(&self) -> Result<(), Error> {
        fs::set_permissions(&self.file, Permissions::from_mode(FILE_MODE))
            .map_err(|error| at_file(&self.file, error))
    }
}

impl Medium for Directory {
    fn path(&self) -> &Path {
        &self.file
    }

    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        // `FileBackend::new` never fails, despite its signature.
        let file = OpenOptions::new().read(true).write(true).open(&self.file)?;
        Ok(Box::new(FileBackend::new(file).map_err(io::Error::other)?))
    }

    fn open_read_only(&self) -> io::Result<Box<dyn StorageBackend>> {
        open_file_read_only(&self.file)
    }

    fn fill_reserve(&self) -> io::Result<bool> {
        Ok(reserve::fill(&reserve::path(&self.file))? >= reserve::RESERVE_BYTES)
    }

    fn release_reserve(&self) -> io::Result<bool> {
        reserve::release(&reserve::path(&self.file))
    }
}

/// The locked store file.
#[derive(Debug)]
pub(super) struct StoreLock {
    file: File,
    path: PathBuf,
}

impl StoreLock {
    /// Fails if the file system is full.
    pub(super) fn has_room(&self) -> Result<(), Error> {
        match reserve::is_usable(&self.path) {
            Ok(true) => Ok(()),
            Ok(false) => Err(at_file(&self.path, io::ErrorKind::StorageFull.into())),
            Err(error) => Err(at_file(&self.path, error)),
        }
    }

    /// Fails if the file was removed or replaced.
    pub(super) fn check_in_place(&self) -> Result<(), Error> {
        let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        let failed = |error| at_file(&self.path, error);
        let own = self.file.metadata().map(identity).map_err(failed)?;
        match fs::metadata(&self.path).map(identity) {
            Ok(there) if there == own => Ok(()),
            Ok(_) => Err(Error::Displaced { file: self.path.clone() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::Displaced { file: self.path.clone() })
            }
            Err(error) => Err(failed(error)),
        }
    }
}

/// Takes an exclusive lock, or fails if another process holds it.
fn lock_or_refuse(file: &File, path: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(Error::Locked { directory: path.parent().unwrap_or(path).to_owned() })
        }
        Err(TryLockError::Error(error)) => Err(at_file(path, error)),
    }
}

/// Opens a file read-only.
pub(super) fn open_file_read_only(path: &Path) -> io::Result<Box<dyn StorageBackend>> {
    Ok(Box::new(FileBackend::new(File::open(path)?).map_err(io::Error::other)?))
}

/// Creates a file that only its owner can access.
pub(super) fn new_file(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(FILE_MODE);
    options.open(path).map_err(|error| at_file(path, error))
}

/// Creates a file with `make` under a temporary name, then syncs and renames it. It never overwrites an existing
/// file.
pub(super) fn place_file(path: &Path, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    if path.try_exists().map_err(|error| at_file(path, error))? {
        return Err(Error::Exists { path: path.to_owned() });
    }
    let partial = partial(path);
    remove_if_there(&partial).map_err(|error| at_file(&partial, error))?;
    let made = make(&partial).and_then(|()| sync_and_rename(&partial, path));
    let removed = remove_if_there(&partial).map_err(|error| at_file(&partial, error));
    made.and(removed)
}

fn sync_and_rename(partial: &Path, path: &Path) -> Result<(), Error> {
    sync(partial)?;
    fs::rename(partial, path).map_err(|error| at_file(path, error))?;
    sync(above(path))
}

/// The parent directory of a path.
fn above(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| at_file(path, error))
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
