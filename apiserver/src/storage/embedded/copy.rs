//! Backups: a store in one file, written while the store goes on and read back into an empty directory.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use tokio::task::spawn_blocking;

use super::directory::{Directory, FILE, look_at, new_file, place_file};
use super::failure::{at_file, in_database};
use super::medium::Medium;
use super::shared::Shared;
use super::{inspect, reads, tables};
use crate::storage::{Entry, Error, Revision};

/// A restored store goes on so far after its backup that it never gives a revision again that was given after the backup
/// was made: at a thousand writes a second, for eleven days.
pub const RESTORE_JUMP: Revision = 1_000_000_000;

/// Writes entries as a store of that revision into a new file; where they come from may block, or fail in between.
pub(in crate::storage) async fn write_copy(
    path: PathBuf,
    revision: Revision,
    entries: impl Iterator<Item = Result<Entry, Error>> + Send + 'static,
) -> Result<(), Error> {
    let write = move || {
        let mut failed = None;
        let entries = entries.map(|entry| {
            entry.map_err(|error| {
                let reason = io::Error::other(error.to_string());
                failed = Some(error);
                redb::Error::Io(reason)
            })
        });
        let written = place(&path, revision, || Ok(entries));
        failed.map_or(written, Err)
    };
    spawn_blocking(write).await.map_err(|_| Error::Closed)?
}

/// Copies an open store into a new file.
pub(super) async fn backup(shared: Arc<Shared>, path: PathBuf) -> Result<(), Error> {
    let write = move || {
        let transaction = shared.begin_read().map_err(|error| in_database(&shared.file, error))?;
        let standing = tables::standing(&transaction).map_err(|error| in_database(&shared.file, error))?;
        place(&path, standing.revision, || reads::entries(&transaction))
    };
    spawn_blocking(write).await.map_err(|_| Error::Closed)?
}

/// Makes the store of a directory from a backup and says its revision, which is [`RESTORE_JUMP`] after that of the backup
/// and after `above`, how far the store had come whose place it takes.
///
/// Blocking. Clients that go on from a revision of before are told that it is too old, and list again.
///
/// # Errors
/// [`Error::Exists`] when there is a store in the directory, [`Error::Damaged`] or [`Error::Newer`] when the backup cannot
/// be read, and what can go wrong with writing files.
pub fn restore(backup: &Path, directory: &Path, above: Revision) -> Result<Revision, Error> {
    let look = look_at(backup).map_err(|error| at_file(backup, error))?;
    let standing = inspect(backup, look)?;
    let revision = standing.newest_given().max(above).saturating_add(RESTORE_JUMP);
    let directory = Directory::claim(directory)?;
    directory.place(|partial| {
        copy(backup, partial)?;
        let failed = |error| in_database(partial, error);
        let database = tables::open(writable(partial)?).map_err(failed)?;
        tables::migrate(&database, standing.format).map_err(failed)?;
        tables::set_revision(&database, revision).map_err(failed)?;
        database.close().map_err(|error| failed(error.into()))
    })?;
    // Who asks for a restore is to hear of a file that cannot be read now, not at the next start.
    inspect(directory.path(), directory.look().map_err(|error| at_file(directory.path(), error))?)?;
    Ok(revision)
}

/// How far the store of a directory may have come; `None` when there is none.
///
/// Blocking. Nothing is changed.
///
/// # Errors
/// As of opening it.
pub fn revision(directory: &Path) -> Result<Option<Revision>, Error> {
    let file = directory.join(FILE);
    match look_at(&file) {
        Ok(look) => Ok(Some(inspect(&file, look)?.newest_given())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at_file(&file, error)),
    }
}

fn place<I>(
    path: &Path,
    revision: Revision,
    entries: impl FnOnce() -> Result<I, redb::Error>,
) -> Result<(), Error>
where
    I: Iterator<Item = Result<Entry, redb::Error>>,
{
    place_file(path, |partial| {
        let file = new_file(partial)?;
        let write = || tables::create(Box::new(FileBackend::new(file)?), revision, entries()?);
        write().map_err(|error| in_database(partial, error))
    })
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let mut source = File::open(from).map_err(|error| at_file(from, error))?;
    io::copy(&mut source, &mut new_file(to)?).map_err(|error| at_file(to, error))?;
    Ok(())
}

fn writable(path: &Path) -> Result<Box<FileBackend>, Error> {
    let open = || File::options().read(true).write(true).open(path);
    let file = open().map_err(|error| at_file(path, error))?;
    Ok(Box::new(FileBackend::new(file).map_err(|error| in_database(path, error.into()))?))
}
