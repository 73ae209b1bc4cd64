//! The open store file, shared by readers, watchers and the writer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use async_trait::async_trait;
use redb::{Database, ReadTransaction, ReadableDatabase, WriteTransaction};
use tokio::task::spawn_blocking;

use super::deferred::Deferred;
use super::failure::in_database;
use super::reads;
use crate::storage::history::History;
use crate::storage::watch::Log;
use crate::storage::{Batch, Error, Limits, Revision};

/// Limits of the history in memory, which serves current watchers. Others read the log in the file. The history has
/// room for many small events, because half of them may be deferred writes. With less room, more nodes would force
/// more commits.
const RECENT: Limits = Limits { revisions: 8192, bytes: 4 * 1024 * 1024 };

/// State shared by the writer, readers and watchers.
#[derive(Debug)]
pub(super) struct Shared {
    /// Path of the store file.
    pub(super) file: PathBuf,
    /// The database, or `None` while the file is being reopened, after a failed reopening, and after it was closed.
    database: RwLock<Option<Database>>,
    recent: Mutex<History>,
    /// Limits of the history in memory. They never exceed the limits of the log in the file.
    pub(super) recent_limits: Limits,
    /// The deferred writes. A reader uses the version that existed when it started.
    deferred: Mutex<Arc<Deferred>>,
    /// True if the last write that needed space failed.
    is_disk_full: AtomicBool,
}

impl Shared {
    pub(super) fn new(file: PathBuf, database: Database, revision: Revision, limits: Limits) -> Self {
        let recent_limits = Limits {
            revisions: limits.revisions.min(RECENT.revisions),
            bytes: limits.bytes.min(RECENT.bytes),
        };
        let recent = Mutex::new(History::new(revision, recent_limits));
        let (deferred, is_disk_full) = (Mutex::default(), AtomicBool::new(false));
        Self { file, database: RwLock::new(Some(database)), recent, recent_limits, deferred, is_disk_full }
    }

    /// Reads a consistent snapshot of the file and the deferred writes.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&ReadTransaction, &Deferred) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        // Order matters: a commit in between moves deferred writes to the file, and a file that is up to date
        // takes precedence.
        let deferred = self.deferred();
        read(&self.begin_read()?, &deferred)
    }

    /// Whether the last write that needed space failed.
    pub(super) fn is_disk_full(&self) -> bool {
        self.is_disk_full.load(Ordering::Relaxed)
    }

    /// Sets whether the disk is full, and returns the previous value.
    pub(super) fn set_disk_full(&self, is_full: bool) -> bool {
        self.is_disk_full.swap(is_full, Ordering::Relaxed)
    }

    /// The current deferred writes.
    pub(super) fn deferred(&self) -> Arc<Deferred> {
        self.lock_deferred().clone()
    }

    /// Adds deferred writes. Only the writer calls it.
    pub(super) fn add_deferred(&self, batches: &[Arc<Batch>]) {
        let mut deferred = self.lock_deferred();
        // Copies only while a reader holds the old version.
        let deferred = Arc::make_mut(&mut deferred);
        for batch in batches {
            deferred.add(batch);
        }
    }

    /// Clears the deferred writes after a commit. Only the writer calls it.
    pub(super) fn forget_deferred(&self) {
        *self.lock_deferred() = Arc::default();
    }

    fn lock_deferred(&self) -> MutexGuard<'_, Arc<Deferred>> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a read transaction, which is isolated from later writes.
    pub(super) fn begin_read(&self) -> Result<ReadTransaction, redb::Error> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        Ok(database.as_ref().ok_or(redb::Error::DatabaseClosed)?.begin_read()?)
    }

    /// Starts a write transaction. Only the writer calls it.
    pub(super) fn begin_write(&self) -> Result<WriteTransaction, redb::Error> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        Ok(database.as_ref().ok_or(redb::Error::DatabaseClosed)?.begin_write()?)
    }

    /// Closes the file and opens it again. Readers wait meanwhile.
    pub(super) fn replace<E>(&self, open: impl FnOnce() -> Result<Database, E>) -> Result<(), E> {
        let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // Errors of a failed file have been reported already.
        let _ = slot.take().map(Database::close);
        *slot = Some(open()?);
        Ok(())
    }

    /// Moves the pages in use to the start of the file and truncates the rest. Reads and writes wait meanwhile. It
    /// fails if a read is in progress.
    pub(super) fn compact(&self) -> Result<(), redb::Error> {
        let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
        slot.as_mut().ok_or(redb::Error::DatabaseClosed)?.compact()?;
        Ok(())
    }

    /// Closes the file for good.
    pub(super) fn close(&self) -> Result<(), redb::Error> {
        let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
        Ok(slot.take().map_or(Ok(()), Database::close)?)
    }

    /// The history in memory.
    pub(super) fn recent(&self) -> MutexGuard<'_, History> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets the history in memory, because events before this revision are only in the file.
    pub(super) fn restart_recent(&self, revision: Revision) {
        *self.recent() = History::new(revision, self.recent_limits);
    }
}

#[async_trait]
impl Log for Arc<Shared> {
    async fn after(&self, seen: Revision) -> Result<Vec<Arc<Batch>>, Error> {
        if let Ok(recent) = self.recent().after(seen) {
            return Ok(recent);
        }
        let shared = self.clone();
        let read = move || {
            let read = shared.read(|transaction, _| reads::log_after(transaction, seen));
            read.map_err(|error| in_database(&shared.file, error))
        };
        let (batches, oldest) = spawn_blocking(read).await.map_err(|_| Error::Closed)??;
        if seen < oldest {
            return Err(Error::Compacted { requested: seen, oldest });
        }
        Ok(batches)
    }
}
