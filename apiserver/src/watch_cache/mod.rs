//! Watch cache: objects in memory with a bounded change history.
//!
//! An object is encoded once, when it is written. Storage, lists and watches share these bytes.

mod cache;
mod encodings;
mod field_index;
mod snapshot;
mod watcher;

#[cfg(test)]
mod tests;

pub(crate) use cache::HISTORY_CHANGES;
pub use cache::{Listing, Put, StorageEvent, WatchCache};
pub use encodings::{Form, Representation};
pub use snapshot::Snapshot;
pub use watcher::{Before, Change, ChangeKind, Watcher};

use http::StatusCode;

pub use crate::object::{Content, Draft, Object};
use crate::status::{EXPIRED, Status};

/// The namespaces of a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All namespaces.
    #[default]
    All,
    /// One namespace.
    Namespace(String),
}

impl Scope {
    /// True if the scope contains the namespace.
    pub fn holds(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(mine) => mine == namespace,
        }
    }
}

/// The error for a revision that is too old. The client must list again and watch from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {requested} ({oldest})")]
pub struct TooOld {
    /// Requested revision.
    pub requested: u64,
    /// Oldest revision from which a watch can resume.
    pub oldest: u64,
}

impl From<TooOld> for Status {
    fn from(too_old: TooOld) -> Self {
        Self::new(StatusCode::GONE, EXPIRED, too_old.to_string())
    }
}
