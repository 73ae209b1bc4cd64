//! The store in one file under a directory of this machine: for a master that needs no other.
//!
//! One thread writes. All transactions that wait are decided in order, written in one commit of the database (redb), and
//! answered when the disk has them; conflicts too, for they may tell of a write that waited before them. The file holds the
//! newest value of each key and a bounded log, so it does not grow with heartbeats.
//!
//! What may be late is answered from memory (`late`) and goes along with the next commit, or within ten seconds. Revisions
//! for it are set aside in the file before any is given: a store that was killed goes on after all of them, so that none
//! ever means two things.
//!
//! A disk that fails or is full costs the commits that hit it and no more: the file is opened anew, what it says is the
//! truth, and the next commit tries again. A file that is damaged, of a newer format, or no store at all is found by
//! reading all of it at the start without writing to it, and is refused.

mod codec;
mod copy;
mod directory;
mod failure;
mod late;
mod logbook;
mod medium;
mod reads;
mod request;
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

use self::directory::{Directory, Held, new_file};
use self::failure::{at_file, in_database, is_broken, on_look};
use self::late::{LATE_FOR, Late};
use self::medium::Medium;
use self::request::{Request, Work};
use self::shared::Shared;
use self::tables::{KNOWN_FORMAT, Look, Standing};
use self::writer::Writer;
use super::transaction::FIRST_REVISION;
use super::watch::{Batches, Log, batches};
use super::{Error, Found, Limits, Outcome, Page, Revision, Store, Transaction};

pub(super) use copy::write_copy;
pub use copy::{RESTORE_JUMP, restore, revision};

/// Keys and values that wait to be written, in KiB; whoever has more to write waits to be let in.
const QUEUE_KIB: usize = 64 * 1024;

/// A store in a directory. It is closed when this is dropped, which waits for the commit under way.
#[derive(Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    newest: watch::Receiver<Revision>,
    queue: Arc<Semaphore>,
    requests: Option<Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    /// None where the medium is no file. After the writer, so that nobody else has it before it is closed.
    held: Option<Arc<Held>>,
}

impl Embedded {
    /// Opens the store of a directory, or makes one; this process alone has it until it is dropped.
    ///
    /// The whole file is read and checked, which takes a moment for each few hundred MB.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Damaged`], [`Error::Newer`], and what can go wrong with files.
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
        let held = directory.hold()?;
        directory.tighten()?;
        let mut store = Self::start(Box::new(directory), limits, LATE_FOR)?;
        store.held = Some(Arc::new(held));
        Ok(store)
    }

    /// Opens the store that lies on a medium, where nothing is late for longer than that.
    fn start(medium: Box<dyn Medium>, limits: Limits, late_for: Duration) -> Result<Self, Error> {
        let file = medium.path().to_owned();
        let standing = inspect(&file, medium.look().map_err(|error| at_file(&file, error))?)?;
        let open = || {
            let database = tables::open(medium.open()?)?;
            tables::migrate(&database, standing.format)?;
            if standing.reserved > standing.revision {
                // It was not closed: what was late is lost, and whoever has seen it lists again.
                tables::set_revision(&database, standing.newest_given() + 1)?;
            }
            let on_disk = tables::standing_of(&database)?;
            Ok((database, on_disk))
        };
        let (database, on_disk) = open().map_err(|error| in_database(&file, error))?;
        let shared = Arc::new(Shared::new(file.clone(), database, on_disk.revision, limits));
        let (newest, subscriber) = watch::channel(on_disk.revision);
        let (requests, waiting) = mpsc::channel();
        let writer = Writer { medium, shared: shared.clone(), limits, newest, on_disk, late_for };
        let thread = thread::Builder::new().name("store-writer".to_owned());
        let writer = thread.spawn(move || writer.run(waiting)).map_err(|error| at_file(&file, error))?;
        let queue = Arc::new(Semaphore::new(QUEUE_KIB));
        Ok(Self {
            shared,
            newest: subscriber,
            queue,
            requests: Some(requests),
            writer: Some(writer),
            held: None,
        })
    }

    async fn ask(&self, work: Work, bytes: usize) -> Result<Outcome, Error> {
        let kib = u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX);
        let room = self.queue.clone().acquire_many_owned(kib).await.map_err(|_| Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(Error::Closed)?;
        requests.send(Request { work, reply, room }).map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Reads, and once more when the file had to be opened anew for that.
    ///
    /// On a thread of its own: a disk that hangs must not take along those that serve. That costs some 40 µs, which only
    /// the cache above pays, and not often.
    async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&ReadTransaction, &Late) -> Result<T, redb::Error> + Clone + Send + 'static,
    ) -> Result<T, Error> {
        let attempt = || {
            let (shared, read) = (self.shared.clone(), read.clone());
            spawn_blocking(move || shared.read(read))
        };
        let mut found = attempt().await.map_err(|_| Error::Closed)?;
        if found.as_ref().is_err_and(is_broken) {
            self.ask(Work::Mend, 0).await?;
            found = attempt().await.map_err(|_| Error::Closed)?;
        }
        found.map_err(|error| in_database(&self.shared.file, error))
    }
}

#[async_trait]
impl Store for Embedded {
    async fn get(&self, key: &str) -> Result<Found, Error> {
        let key = key.to_owned();
        self.read(move |transaction, late| reads::get(transaction, late, &key)).await
    }

    async fn range(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page, Error> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        self.read(move |transaction, late| reads::page(transaction, late, &prefix, after.as_deref(), limit))
            .await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, Error> {
        transaction.check()?;
        let bytes = transaction.bytes();
        self.ask(Work::Commit(transaction), bytes).await
    }

    async fn commit_late(&self, transaction: Transaction) -> Result<Outcome, Error> {
        transaction.check()?;
        let bytes = transaction.bytes();
        self.ask(Work::CommitLate(transaction), bytes).await
    }

    async fn rest(&self) -> Result<(), Error> {
        self.ask(Work::Rest, 0).await.map(|_| ())
    }

    async fn watch(&self, from: Revision) -> Result<Batches, Error> {
        let log = Arc::new(self.shared.clone());
        log.after(from).await?;
        Ok(batches(log, self.newest.clone(), from))
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.ask(Work::Compact(revision), 0).await.map(|_| ())
    }

    async fn revision(&self) -> Result<Revision, Error> {
        Ok(*self.newest.borrow())
    }

    async fn look(&self) -> Result<(), Error> {
        let Some(held) = self.held.clone() else { return Ok(()) };
        spawn_blocking(move || held.look()).await.map_err(|_| Error::Closed)?
    }

    async fn backup(&self, path: &Path) -> Result<(), Error> {
        // A backup is of the file.
        self.rest().await?;
        copy::backup(self.shared.clone(), path.to_owned()).await
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has said so itself.
            let _ = writer.join();
        }
    }
}

/// Reads all of a file without writing to it, and refuses what is not a store that is known here.
fn inspect(file: &Path, look: Box<dyn StorageBackend>) -> Result<Standing, Error> {
    let standing = tables::examine(look, Look::Whole).map_err(|error| on_look(file, error))?;
    if standing.format > KNOWN_FORMAT {
        return Err(Error::Newer { file: file.to_owned(), found: standing.format, known: KNOWN_FORMAT });
    }
    Ok(standing)
}
