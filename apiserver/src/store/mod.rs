//! Where objects live: one counter of revisions over everything, and a bounded memory of what changed.
//!
//! An object is encoded once, when it is written. What is kept, listed and sent to every watcher are those bytes.

mod memory;
mod object;
mod picture;
mod topic;
mod watcher;

#[cfg(test)]
mod tests;

pub(crate) use memory::HISTORY_CHANGES;
pub use memory::{Followed, Listing, Memory, Put};
pub use object::{Content, Draft, Object};
pub(crate) use picture::NODE;
pub use picture::Picture;
pub use topic::Topic;
pub use watcher::{Before, Change, ChangeKind, Watcher};

/// Which objects of a resource are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    #[default]
    All,
    /// Those of one namespace.
    Namespace(String),
}

impl Scope {
    /// True when objects of that namespace are meant.
    pub fn holds(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(mine) => mine == namespace,
        }
    }
}

/// The revision asked for is older than the store remembers: list again and go on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
pub struct TooOld {
    /// The revision asked for.
    pub asked: u64,
    /// The oldest one that can be resumed from.
    pub oldest: u64,
}
