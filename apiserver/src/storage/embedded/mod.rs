//! Embedded store: a single file in a local directory (redb), for a control plane without etcd.
//!
//! One thread writes. It evaluates all queued transactions in order, commits them together, and replies when they
//! are on disk. Conflicts are answered then too, because they may depend on a write of the same commit. The file
//! contains the newest value of each key and a bounded log, so that heartbeats do not make it larger.
//!
//! Deferred writes (`deferred`) are answered from memory, and persisted by the next commit or within ten seconds.
//! Their revisions are reserved in the file beforehand. After a crash the store skips all reserved revisions, so
//! that no revision is used twice.
//!
//! A disk space reserve (`reserve`) allows deletes on a full disk, which make room for other writes.
//!
//! A failing or full disk affects only the commits that hit it: the store reopens the file, uses its content, and
//! retries with the next commit. On start the store verifies the whole file without writing to it. It rejects a
//! damaged file, a newer format, and a file that is not a store.

mod backup;
mod codec;
mod deferred;
mod directory;
mod failure;
mod log_table;
mod medium;
mod reads;
mod request;
mod reserve;
mod shared;
mod stage;
mod tables;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use redb::{ReadTransaction, StorageBackend};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::spawn_blocking;

use self::deferred::{DEFER_LIMIT, Deferred};
use self::directory::{Directory, StoreLock, new_file};
use self::failure::{at_file, in_database, is_broken, is_full, on_look};
use self::medium::Medium;
use self::request::{Request, Work};
use self::shared::Shared;
use self::tables::{FileState, KNOWN_FORMAT, Look};
use self::writer::Writer;
use super::transaction::FIRST_REVISION;
use super::watch::{Batches, Log, batches};
use super::{Error, Found, Limits, Outcome, Page, Revision, Store, Transaction};

pub(super) use backup::write_copy;
pub use backup::{RESTORE_JUMP, restore, revision};
pub use directory::FILE;

/// Capacity of the write queue, in KiB of keys and values. Further writers wait.
const QUEUE_KIB: usize = 64 * 1024;

/// The embedded store. Dropping it waits for the running commit.
#[derive(Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    newest: watch::Receiver<Revision>,
    queue: Arc<Semaphore>,
    requests: Option<Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    /// The lock on the store file, or `None` if the medium is not a file. It is declared after the writer, so that
    /// it is released last.
    lock: Option<Arc<StoreLock>>,
}

impl Embedded {
    /// Opens or creates the store of a directory and locks it.
    ///
    /// Verifies the whole file, which takes a moment per few hundred MB.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Damaged`], [`Error::Newer`], and file errors.
    pub async fn open(directory: impl Into<PathBuf>, limits: Limits) -> Result<Self, Error> {
        let directory = directory.into();
        spawn_blocking(move || Self::open_blocking(&directory, limits)).await.map_err(|_| Error::Closed)?
    }

    fn open_blocking(directory: &Path, limits: Limits) -> Result<Self, Error> {
        let directory = Directory::claim(directory)?;
        if !directory.holds_store()? {
            directory.place(|partial| {
                let backend = redb::backends::FileBackend::new(new_file(partial)?);
                let make = || tables::create(Box::new(backend?), FIRST_REVISION, std::iter::empty());
                make().map_err(|error| in_database(partial, error))
            })?;
        }
        let lock = directory.hold()?;
        directory.restrict_permissions()?;
        let mut store = Self::start(Box::new(directory), limits, DEFER_LIMIT)?;
        store.lock = Some(Arc::new(lock));
        Ok(store)
    }

    /// Opens the store on a medium. `defer_limit` is the maximum delay of deferred writes.
    fn start(medium: Box<dyn Medium>, limits: Limits, defer_limit: Duration) -> Result<Self, Error> {
        let file = medium.path().to_owned();
        let file_state = inspect(&file, medium.open_read_only().map_err(|error| at_file(&file, error))?)?;
        let open = || {
            let database = tables::open(medium.open()?)?;
            tables::migrate(&database, file_state.format)?;
            if file_state.reserved > file_state.revision {
                // The store was not closed: deferred writes are lost, and clients that saw them list again.
                tables::set_revision(&database, file_state.newest_given() + 1)?;
            }
            let on_disk = tables::file_state_of(&database)?;
            Ok((database, on_disk))
        };
        let opened = open().or_else(|error| {
            // On a full disk, opening needs little space; the writer refills the reserve later.
            if is_full(&error) && medium.release_reserve()? { open() } else { Err(error) }
        });
        let (database, on_disk) = opened.map_err(|error| in_database(&file, error))?;
        let shared = Arc::new(Shared::new(file.clone(), database, on_disk.revision, limits));
        let (newest, subscriber) = watch::channel(on_disk.revision);
        let (requests, waiting) = mpsc::channel();
        let writer = Writer {
            medium,
            shared: shared.clone(),
            limits,
            newest,
            on_disk,
            defer_limit,
            fill_at: None,
            compact_at: None,
        };
        let thread = thread::Builder::new().name("store-writer".to_owned());
        let writer = thread.spawn(move || writer.run(waiting)).map_err(|error| at_file(&file, error))?;
        let queue = Arc::new(Semaphore::new(QUEUE_KIB));
        Ok(Self {
            shared,
            newest: subscriber,
            queue,
            requests: Some(requests),
            writer: Some(writer),
            lock: None,
        })
    }

    async fn send_request(&self, work: Work, bytes: usize) -> Result<Outcome, Error> {
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
        let room = self.queue.clone().acquire_many_owned(kib).await.map_err(|_| Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(Error::Closed)?;
        requests.send(Request { work, reply, room }).map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Reads, and retries once after the writer has reopened a failed file.
    ///
    /// It runs on a blocking thread, so that a hanging disk does not block async threads. This costs about 40 µs.
    /// The watch cache makes such reads rare.
    async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&ReadTransaction, &Deferred) -> Result<T, redb::Error> + Clone + Send + 'static,
    ) -> Result<T, Error> {
        let attempt = || {
            let (shared, read) = (self.shared.clone(), read.clone());
            spawn_blocking(move || shared.read(read))
        };
        let mut found = attempt().await.map_err(|_| Error::Closed)?;
        if found.as_ref().is_err_and(is_broken) {
            self.send_request(Work::Reopen, 0).await?;
            found = attempt().await.map_err(|_| Error::Closed)?;
        }
        found.map_err(|error| in_database(&self.shared.file, error))
    }
}

#[async_trait]
impl Store for Embedded {
    async fn get(&self, key: &str) -> Result<Found, Error> {
        let key = key.to_owned();
        self.read(move |transaction, deferred| reads::get(transaction, deferred, &key)).await
    }

    async fn range(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page, Error> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        self.read(move |transaction, deferred| {
            reads::page(transaction, deferred, &prefix, after.as_deref(), limit)
        })
        .await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, Error> {
        transaction.check()?;
        let bytes = transaction.bytes();
        self.send_request(Work::Commit(transaction), bytes).await
    }

    async fn commit_deferred(&self, transaction: Transaction) -> Result<Outcome, Error> {
        transaction.check()?;
        let bytes = transaction.bytes();
        self.send_request(Work::CommitDeferred(transaction), bytes).await
    }

    async fn flush(&self) -> Result<(), Error> {
        self.send_request(Work::Flush, 0).await.map(|_| ())
    }

    async fn watch(&self, from: Revision) -> Result<Batches, Error> {
        let log = Arc::new(self.shared.clone());
        log.after(from).await?;
        Ok(batches(log, self.newest.clone(), from))
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.send_request(Work::Compact(revision), 0).await.map(|_| ())
    }

    async fn revision(&self) -> Result<Revision, Error> {
        Ok(*self.newest.borrow())
    }

    async fn check_health(&self) -> Result<(), Error> {
        let Some(lock) = self.lock.clone() else { return Ok(()) };
        let shared = self.shared.clone();
        let look = move || {
            lock.check_in_place()?;
            if shared.is_disk_full() {
                lock.has_room()?;
                shared.set_disk_full(false);
            }
            Ok(())
        };
        spawn_blocking(look).await.map_err(|_| Error::Closed)?
    }

    async fn backup(&self, path: &Path) -> Result<(), Error> {
        // The backup copies the file.
        self.flush().await?;
        backup::backup(self.shared.clone(), path.to_owned()).await
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            // A panic of the writer has been reported already.
            let _ = writer.join();
        }
    }
}

/// Verifies a file without writing to it, and rejects files that are not a known store.
fn inspect(file: &Path, look: Box<dyn StorageBackend>) -> Result<FileState, Error> {
    let file_state = tables::examine(look, Look::Full).map_err(|error| on_look(file, error))?;
    if file_state.format > KNOWN_FORMAT {
        return Err(Error::Newer { file: file.to_owned(), found: file_state.format, known: KNOWN_FORMAT });
    }
    Ok(file_state)
}
