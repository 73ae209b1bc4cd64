//! The directory of a store: who may open it, what lies in it, and how a file comes to be there whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::failure::at_file;
use super::medium::Medium;
use crate::storage::Error;

/// The file with everything in it.
pub(super) const FILE: &str = "store.redb";
/// Held while a process has the store open; never removed, for a lock on a removed file locks nothing.
const LOCK: &str = "lock";
/// Secrets lie in here: for its owner alone.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A directory that this process alone has open, for as long as this lives.
#[derive(Debug)]
pub(super) struct Directory {
    file: PathBuf,
    _lock: File,
}

impl Directory {
    /// Makes the directory if it is missing and takes its lock.
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
        // What a process that was killed had not finished.
        remove_if_there(&partial(&file)).map_err(failed)?;
        Ok(Self { file, _lock: lock })
    }

    /// True when there is a store in it.
    pub(super) fn holds_store(&self) -> Result<bool, Error> {
        self.file.try_exists().map_err(|error| at_file(&self.file, error))
    }

    /// Puts a store into it, as made by `make`, whole or not at all.
    pub(super) fn place(&self, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
        place_file(&self.file, make)
    }

    /// Takes the lock of the file itself, which may lie in another directory too: hard links have one file.
    pub(super) fn hold(&self) -> Result<Held, Error> {
        let file = File::open(&self.file).map_err(|error| at_file(&self.file, error))?;
        lock_or_refuse(&file, &self.file)?;
        Ok(Held { file, path: self.file.clone() })
    }

    /// Takes from everyone else what an earlier program or a person may have granted.
    pub(super) fn tighten(&self) -> Result<(), Error> {
        fs::set_permissions(&self.file, Permissions::from_mode(FILE_MODE))
            .map_err(|error| at_file(&self.file, error))
    }
}

impl Medium for Directory {
    fn path(&self) -> &Path {
        &self.file
    }

    fn open(&self) -> io::Result<Box<dyn StorageBackend>> {
        // `FileBackend::new` cannot fail, but says it could.
        let file = OpenOptions::new().read(true).write(true).open(&self.file)?;
        Ok(Box::new(FileBackend::new(file).map_err(io::Error::other)?))
    }

    fn look(&self) -> io::Result<Box<dyn StorageBackend>> {
        look_at(&self.file)
    }
}

/// The file of a store, locked for as long as this lives.
#[derive(Debug)]
pub(super) struct Held {
    file: File,
    path: PathBuf,
}

impl Held {
    /// Looks whether it is still the one in its place.
    pub(super) fn look(&self) -> Result<(), Error> {
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

/// Takes a lock that nobody else has.
fn lock_or_refuse(file: &File, path: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => {
            Err(Error::Locked { directory: path.parent().unwrap_or(path).to_owned() })
        }
        Err(TryLockError::Error(error)) => Err(at_file(path, error)),
    }
}

/// Opens a file so that it cannot be changed.
pub(super) fn look_at(path: &Path) -> io::Result<Box<dyn StorageBackend>> {
    Ok(Box::new(FileBackend::new(File::open(path)?).map_err(io::Error::other)?))
}

/// A new empty file for its owner alone.
pub(super) fn new_file(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(FILE_MODE);
    options.open(path).map_err(|error| at_file(path, error))
}

/// Makes a file beside its place and moves it there when it is safe on the disk; one that is there is not overwritten.
pub(super) fn place_file(path: &Path, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    if path.try_exists().map_err(|error| at_file(path, error))? {
        return Err(Error::Exists { path: path.to_owned() });
    }
    let partial = partial(path);
    remove_if_there(&partial).map_err(|error| at_file(&partial, error))?;
    let made = make(&partial).and_then(|()| settle(&partial, path));
    let removed = remove_if_there(&partial).map_err(|error| at_file(&partial, error));
    made.and(removed)
}

fn settle(partial: &Path, path: &Path) -> Result<(), Error> {
    sync(partial)?;
    fs::rename(partial, path).map_err(|error| at_file(path, error))?;
    sync(above(path))
}

/// The directory that a file or directory lies in.
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
