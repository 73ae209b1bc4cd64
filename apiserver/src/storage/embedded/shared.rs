//! The open file of a store, as readers and watchers see it beside the writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use async_trait::async_trait;
use redb::{Database, ReadTransaction, ReadableDatabase, WriteTransaction};
use tokio::task::spawn_blocking;

use super::failure::in_database;
use super::reads;
use crate::storage::history::History;
use crate::storage::watch::Log;
use crate::storage::{Batch, Error, Limits, Revision};

/// What watchers that keep up find in memory; those that do not read the file.
const RECENT: Limits = Limits { revisions: 1024, bytes: 4 * 1024 * 1024 };

/// What the writer, the readers and the watchers of a store have in common.
#[derive(Debug)]
pub(super) struct Shared {
    /// Where the file is.
    pub(super) file: PathBuf,
    /// None while it is being opened anew, when that failed, and in the end.
    database: RwLock<Option<Database>>,
    recent: Mutex<History>,
    /// Never more than the log in the file holds.
    recent_limits: Limits,
}

impl Shared {
    pub(super) fn new(file: PathBuf, database: Database, revision: Revision, limits: Limits) -> Self {
        let recent_limits = Limits {
            revisions: limits.revisions.min(RECENT.revisions),
            bytes: limits.bytes.min(RECENT.bytes),
        };
        let recent = Mutex::new(History::new(revision, recent_limits));
        Self { file, database: RwLock::new(Some(database)), recent, recent_limits }
    }

    /// Reads from one consistent picture of the file.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        read(&self.begin_read()?)
    }

    /// A picture of the file that stays while the store goes on.
    pub(super) fn begin_read(&self) -> Result<ReadTransaction, redb::Error> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        Ok(database.as_ref().ok_or(redb::Error::DatabaseClosed)?.begin_read()?)
    }

    /// Begins to write; for the writer alone.
    pub(super) fn begin_write(&self) -> Result<WriteTransaction, redb::Error> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        Ok(database.as_ref().ok_or(redb::Error::DatabaseClosed)?.begin_write()?)
    }

    /// Closes the file and puts another opening of it in its place, if that succeeds; nobody reads meanwhile.
    pub(super) fn replace<E>(&self, open: impl FnOnce() -> Result<Database, E>) -> Result<(), E> {
        let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // What a failed file says when it is closed was said before.
        let _ = slot.take().map(Database::close);
        *slot = Some(open()?);
        Ok(())
    }

    /// Closes the file for good.
    pub(super) fn close(&self) -> Result<(), redb::Error> {
        let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
        Ok(slot.take().map_or(Ok(()), Database::close)?)
    }

    /// The changes in memory.
    pub(super) fn recent(&self) -> MutexGuard<'_, History> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the changes in memory because some between them and that revision are only in the file.
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
            let read = shared.read(|transaction| reads::log_after(transaction, seen));
            read.map_err(|error| in_database(&shared.file, error))
        };
        let (batches, oldest) = spawn_blocking(read).await.map_err(|_| Error::Closed)??;
        if seen < oldest {
            return Err(Error::Compacted { asked: seen, oldest });
        }
        Ok(batches)
    }
}
