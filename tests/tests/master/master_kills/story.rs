//! State that all clients share: whether to continue, acknowledged revisions, and those at each kill.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Durability of an acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    Never,
    /// A kill may lose the write, unless a durable write was acknowledged after it.
    AtTheEnd,
}

/// The shared history.
#[derive(Debug, Default)]
pub struct Story {
    over: AtomicBool,
    newest: AtomicU64,
    newest_safe: AtomicU64,
    /// For each kill, the revision up to which it must not lose anything.
    kills: Mutex<Vec<u64>>,
}

impl Story {
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Records an acknowledged revision.
    pub fn acknowledge(&self, revision: u64, loss: Loss) {
        self.newest.fetch_max(revision, Ordering::SeqCst);
        if loss == Loss::Never {
            self.newest_safe.fetch_max(revision, Ordering::SeqCst);
        }
    }

    /// The newest acknowledged revision.
    pub fn acknowledged(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }

    /// The newest revision that no kill may lose.
    pub fn acknowledged_safe(&self) -> u64 {
        self.newest_safe.load(Ordering::SeqCst)
    }

    /// Records a kill; call it before the next process acknowledges anything.
    pub fn killed(&self) {
        self.kills.lock().unwrap().push(self.acknowledged_safe());
    }

    /// Number of kills so far.
    pub fn kills(&self) -> usize {
        self.kills.lock().unwrap().len()
    }

    /// Revision up to which no write requested after that many kills may be lost; without later kills, none may be.
    pub fn safe_since(&self, kills: usize) -> u64 {
        self.kills.lock().unwrap().get(kills).copied().unwrap_or(u64::MAX)
    }
}
