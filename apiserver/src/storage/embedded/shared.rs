//! The open file of a store, as readers and watchers see it beside the writer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use async_trait::async_trait;
use redb::{Database, ReadTransaction, ReadableDatabase, WriteTransaction};
use tokio::task::spawn_blocking;

use super::failure::in_database;
use super::late::Late;
use super::reads;
use crate::storage::history::History;
use crate::storage::watch::Log;
use crate::storage::{Batch, Error, Limits, Revision};

/// What watchers that keep up find in memory; those that do not read the file. Many small ones, because half of them may
/// be late, and more nodes than that would make the file be written more often.
const RECENT: Limits = Limits { revisions: 8192, bytes: 4 * 1024 * 1024 };

/// What the writer, the readers and the watchers of a store have in common.
#[derive(Debug)]
pub(super) struct Shared {
    /// Where the file is.
    pub(super) file: PathBuf,
    /// None while it is being opened anew, when that failed, and in the end.
    database: RwLock<Option<Database>>,
    recent: Mutex<History>,
    /// Never more than the log in the file holds.
    pub(super) recent_limits: Limits,
    /// What the file does not have yet; readers that look at it keep it as it was.
    late: Mutex<Arc<Late>>,
}

impl Shared {
    pub(super) fn new(file: PathBuf, database: Database, revision: Revision, limits: Limits) -> Self {
        let recent_limits = Limits {
            revisions: limits.revisions.min(RECENT.revisions),
            bytes: limits.bytes.min(RECENT.bytes),
        };
        let recent = Mutex::new(History::new(revision, recent_limits));
        Self { file, database: RwLock::new(Some(database)), recent, recent_limits, late: Mutex::default() }
    }

    /// Reads from one consistent picture of the file and of what is late beside it.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&ReadTransaction, &Late) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        // In this order: what a commit takes along meanwhile is in the file then, and a file that has it all is believed.
        let late = self.late();
        read(&self.begin_read()?, &late)
    }

    /// What is late at this moment.
    pub(super) fn late(&self) -> Arc<Late> {
        self.lock_late().clone()
    }

    /// Says what is late beside that from now on; for the writer alone.
    pub(super) fn add_late(&self, batches: &[Arc<Batch>]) {
        let mut late = self.lock_late();
        // Copied only while somebody reads.
        let late = Arc::make_mut(&mut late);
        for batch in batches {
            late.add(batch);
        }
    }

    /// Says that the file has all of it; for the writer alone.
    pub(super) fn forget_late(&self) {
        *self.lock_late() = Arc::default();
    }

    fn lock_late(&self) -> MutexGuard<'_, Arc<Late>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
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
            let read = shared.read(|transaction, _| reads::log_after(transaction, seen));
            read.map_err(|error| in_database(&shared.file, error))
        };
        let (batches, oldest) = spawn_blocking(read).await.map_err(|_| Error::Closed)??;
        if seen < oldest {
            return Err(Error::Compacted { asked: seen, oldest });
        }
        Ok(batches)
    }
}
