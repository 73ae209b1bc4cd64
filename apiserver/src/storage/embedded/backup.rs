//! Backup and restore of the embedded store as a single file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use tokio::task::spawn_blocking;

use super::directory::{Directory, FILE, new_file, open_file_read_only, place_file};
use super::failure::{at_file, in_database};
use super::medium::Medium;
use super::shared::Shared;
use super::{inspect, reads, tables};
use crate::storage::{Entry, Error, Revision};

/// How far the revision of a restored store is beyond that of its backup, so that no revision is used twice. At a
/// thousand writes per second the distance covers eleven days.
pub const RESTORE_JUMP: Revision = 1_000_000_000;

/// Writes entries to a new store file with a revision. The iterator may block or fail.
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

/// Copies an open store to a new file.
pub(super) async fn backup(shared: Arc<Shared>, path: PathBuf) -> Result<(), Error> {
    let write = move || {
        let transaction = shared.begin_read().map_err(|error| in_database(&shared.file, error))?;
        let file_state =
            tables::file_state(&transaction).map_err(|error| in_database(&shared.file, error))?;
        place(&path, file_state.revision, || reads::entries(&transaction))
    };
    spawn_blocking(write).await.map_err(|_| Error::Closed)?
}

/// Restores a backup into an empty directory, and returns the new revision. It is [`RESTORE_JUMP`] after the backup
/// and after `above`, the last revision of the replaced store.
///
/// Blocking. Watches from earlier revisions get "too old" and list again.
///
/// # Errors
/// [`Error::Exists`] if the directory contains a store, [`Error::Damaged`] or [`Error::Newer`] if the backup cannot
/// be read, and file errors.
pub fn restore(backup: &Path, directory: &Path, above: Revision) -> Result<Revision, Error> {
    let look = open_file_read_only(backup).map_err(|error| at_file(backup, error))?;
    let file_state = inspect(backup, look)?;
    let revision = file_state.newest_given().max(above).saturating_add(RESTORE_JUMP);
    let directory = Directory::claim(directory)?;
    directory.place(|partial| {
        copy(backup, partial)?;
        let failed = |error| in_database(partial, error);
        let database = tables::open(writable(partial)?).map_err(failed)?;
        tables::migrate(&database, file_state.format).map_err(failed)?;
        tables::set_revision(&database, revision).map_err(failed)?;
        database.close().map_err(|error| failed(error.into()))
    })?;
    // Verifies the result now, so that a damaged file is reported by the restore and not by the next start.
    inspect(directory.path(), directory.open_read_only().map_err(|error| at_file(directory.path(), error))?)?;
    Ok(revision)
}

/// Upper bound of the revisions that the store in a directory has used, or `None` without a store.
///
/// Blocking and read-only.
///
/// # Errors
/// The same as for opening the store.
pub fn revision(directory: &Path) -> Result<Option<Revision>, Error> {
    let file = directory.join(FILE);
    match open_file_read_only(&file) {
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
