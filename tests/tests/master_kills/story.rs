//! What all clients have in common: whether to go on, what they were told, and what had been told at each kill.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a kill may do to a write that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    Never,
    /// It may be lost, unless something that may not was acknowledged after it.
    AtTheEnd,
}

/// The history that the clients make.
#[derive(Debug, Default)]
pub struct Story {
    over: AtomicBool,
    newest: AtomicU64,
    newest_safe: AtomicU64,
    /// For each kill, up to which revision nothing may be lost by it.
    kills: Mutex<Vec<u64>>,
}

impl Story {
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Notes that somebody was told of a revision.
    pub fn acknowledge(&self, revision: u64, loss: Loss) {
        self.newest.fetch_max(revision, Ordering::SeqCst);
        if loss == Loss::Never {
            self.newest_safe.fetch_max(revision, Ordering::SeqCst);
        }
    }

    /// The newest revision that somebody was told.
    pub fn acknowledged(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }

    /// The newest revision of a write that no kill may take.
    pub fn acknowledged_safe(&self) -> u64 {
        self.newest_safe.load(Ordering::SeqCst)
    }

    /// Notes a kill; nobody may have been told anything by the next process yet.
    pub fn killed(&self) {
        self.kills.lock().unwrap().push(self.acknowledged_safe());
    }

    /// How many kills there have been.
    pub fn kills(&self) -> usize {
        self.kills.lock().unwrap().len()
    }

    /// Up to which revision nothing may be lost that was asked for after so many kills; nothing is lost without a kill.
    pub fn safe_since(&self, kills: usize) -> u64 {
        self.kills.lock().unwrap().get(kills).copied().unwrap_or(u64::MAX)
    }
}
