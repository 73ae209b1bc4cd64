//! An in-memory disk that fails, fills up and loses power on demand.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redb::StorageBackend;

use super::super::medium::Medium;
use super::super::{Embedded, tables};
use crate::storage::transaction::FIRST_REVISION;
use crate::storage::{Error as StoreError, Limits};

/// Atomic write size.
const SECTOR_BYTES: usize = 512;

/// Clones share the disk.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// Content as programs see it.
    bytes: Vec<u8>,
    /// Content after a power failure, except for parts of `unsynced`.
    safe: Vec<u8>,
    /// Writes since the last sync, in order.
    unsynced: Vec<Change>,
    fault: Option<Fault>,
    /// Operations before the fault.
    countdown: usize,
    /// The fault occurs only once.
    once: bool,
    film: Option<Film>,
}

/// Samples of the content after a power failure, taken between operations.
#[derive(Debug)]
struct Film {
    chance: fastrand::Rng,
    acknowledged: Arc<AtomicU64>,
    cuts: Vec<Cut>,
}

/// A sample.
#[derive(Debug)]
pub(super) struct Cut {
    /// The last revision that was acknowledged before.
    pub(super) acknowledged: u64,
    pub(super) disk: Disk,
}

/// One in this many operations is followed by a power failure.
const CUT_EVERY: u32 = 12;

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Len(usize),
}

/// Kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Writes fail because the disk is full.
    Full,
    /// The file cannot grow because the disk is full.
    CannotGrow,
    /// Syncs fail.
    Sync,
    /// All operations fail.
    Gone,
}

impl Disk {
    /// A disk with an empty store.
    pub(super) fn with_store() -> Self {
        let disk = Self::holding(Vec::new());
        tables::create(disk.backend(), FIRST_REVISION, std::iter::empty()).unwrap();
        disk
    }

    /// A disk with this file.
    pub(super) fn holding(bytes: Vec<u8>) -> Self {
        let state = State {
            safe: bytes.clone(),
            bytes,
            unsynced: Vec::new(),
            fault: None,
            countdown: 0,
            once: false,
            film: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Opens the store.
    pub(super) fn open(&self) -> std::result::Result<Embedded, StoreError> {
        self.open_with(Limits::default())
    }

    /// Opens the store with another log limit. Deferred writes wait for a commit, so that tests do not depend on time.
    pub(super) fn open_with(&self, limits: Limits) -> std::result::Result<Embedded, StoreError> {
        self.open_late_for(limits, Duration::MAX)
    }

    /// As `open_with`, with a maximum delay of deferred writes.
    pub(super) fn open_late_for(
        &self,
        limits: Limits,
        defer_limit: Duration,
    ) -> std::result::Result<Embedded, StoreError> {
        Embedded::start(Box::new(self.clone()), limits, defer_limit)
    }

    /// Content after the process is killed now.
    pub(super) fn after_kill(&self) -> Self {
        Self::holding(self.bytes())
    }

    pub(super) fn backend(&self) -> Box<dyn StorageBackend> {
        Box::new(self.clone())
    }

    /// Replaces the content, as a lying disk does.
    pub(super) fn become_holding(&self, bytes: Vec<u8>) {
        self.lock().bytes = bytes;
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.lock().bytes.clone()
    }

    /// Fails permanently after this many operations.
    pub(super) fn fail(&self, fault: Fault, countdown: usize) {
        let mut state = self.lock();
        (state.fault, state.countdown, state.once) = (Some(fault), countdown, false);
    }

    /// Fails once after this many operations.
    pub(super) fn fail_once(&self, fault: Fault, countdown: usize) {
        self.fail(fault, countdown);
        self.lock().once = true;
    }

    pub(super) fn reopen_only(&self) {
        self.lock().fault = None;
    }

    /// Samples power failures; `acknowledged` is the last acknowledged revision.
    pub(super) fn film(&self, seed: u64, acknowledged: Arc<AtomicU64>) {
        let chance = fastrand::Rng::with_seed(seed);
        self.lock().film = Some(Film { chance, acknowledged, cuts: Vec::new() });
    }

    /// The samples.
    pub(super) fn cuts(&self) -> Vec<Cut> {
        self.lock().film.take().unwrap().cuts
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// Writes a random subset of sectors; one beyond the end extends the file.
fn write_some(safe: &mut Vec<u8>, offset: usize, data: &[u8], chance: &mut fastrand::Rng) {
    let all = chance.bool();
    for (number, sector) in data.chunks(SECTOR_BYTES).enumerate() {
        let at = offset + number * SECTOR_BYTES;
        if all || chance.bool() {
            let end = at + sector.len();
            if safe.len() < end {
                safe.resize(end, 0);
            }
            safe[at..end].copy_from_slice(sector);
        }
    }
}

impl State {
    /// The synced content, and a random subset of the rest.
    fn after_power_cut(&self, chance: &mut fastrand::Rng) -> Disk {
        let mut safe = self.safe.clone();
        for change in &self.unsynced {
            match change {
                Change::Len(len) if chance.bool() => safe.resize(*len, 0),
                Change::Len(_) => {}
                Change::Write(offset, data) => write_some(&mut safe, *offset, data, chance),
            }
        }
        Disk::holding(safe)
    }

    fn admit(&mut self, refuses: impl Fn(Fault) -> bool) -> Result<()> {
        if let Some(mut film) = self.film.take() {
            if film.chance.u32(..CUT_EVERY) == 0 {
                let acknowledged = film.acknowledged.load(Ordering::SeqCst);
                film.cuts.push(Cut { acknowledged, disk: self.after_power_cut(&mut film.chance) });
            }
            self.film = Some(film);
        }
        let Some(fault) = self.fault.filter(|fault| refuses(*fault)) else { return Ok(()) };
        if self.countdown > 0 {
            self.countdown -= 1;
            return Ok(());
        }
        if self.once {
            self.fault = None;
        }
        Err(match fault {
            Fault::Full | Fault::CannotGrow => Error::from(ErrorKind::StorageFull),
            Fault::Sync | Fault::Gone => Error::other("the disk does not answer"),
        })
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64> {
        Ok(self.lock().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut state = self.lock();
        if state.fault == Some(Fault::Gone) {
            state.admit(|_| true)?;
        }
        let from = offset as usize;
        let found = state.bytes.get(from..from + out.len()).ok_or(Error::from(ErrorKind::UnexpectedEof))?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.lock();
        let grows = len as usize > state.bytes.len();
        state.admit(|fault| fault == Fault::Gone || (fault == Fault::CannotGrow && grows))?;
        state.bytes.resize(len as usize, 0);
        state.unsynced.push(Change::Len(len as usize));
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        let mut state = self.lock();
        state.admit(|fault| matches!(fault, Fault::Sync | Fault::Gone))?;
        let state = &mut *state;
        for change in state.unsynced.drain(..) {
            match change {
                Change::Len(len) => state.safe.resize(len, 0),
                Change::Write(offset, data) => state.safe[offset..offset + data.len()].copy_from_slice(&data),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut state = self.lock();
        state.admit(|fault| matches!(fault, Fault::Full | Fault::Gone))?;
        let (from, to) = (offset as usize, offset as usize + data.len());
        if to > state.bytes.len() {
            return Err(Error::from(ErrorKind::UnexpectedEof));
        }
        state.bytes[from..to].copy_from_slice(data);
        state.unsynced.push(Change::Write(from, data.to_vec()));
        Ok(())
    }
}

impl Medium for Disk {
    fn path(&self) -> &Path {
        Path::new("/a/disk/in/memory")
    }

    fn open(&self) -> Result<Box<dyn StorageBackend>> {
        Ok(self.backend())
    }

    fn open_read_only(&self) -> Result<Box<dyn StorageBackend>> {
        Ok(self.backend())
    }
}
