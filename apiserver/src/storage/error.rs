//! Storage errors, classified by what the caller can do.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::Revision;

/// Error of a storage operation.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The revision has been compacted.
    #[error(
        "revision {requested} is too old, the log begins after {oldest}: list again and watch from there"
    )]
    Compacted {
        /// Requested revision.
        requested: Revision,
        /// Oldest available revision.
        oldest: Revision,
    },
    /// The request is invalid. The message says what to change.
    #[error("{0}")]
    Invalid(String),
    /// The disk is full; nothing was written.
    #[error("{file}: the disk is full, nothing was written: free disk space and retry, or delete objects")]
    Full {
        /// Store file.
        file: PathBuf,
        /// System error.
        source: Arc<io::Error>,
    },
    /// The quota of etcd is exceeded; nothing was written.
    #[error(
        "the etcd at {store} is full ({reason}), nothing was written: it has reached its --quota-backend-bytes; free space with `etcdctl \
         defrag`, then `etcdctl alarm disarm`, or start it with a larger quota"
    )]
    Quota {
        /// Endpoints of the store.
        store: String,
        /// Message of etcd.
        reason: String,
    },
    /// The open file was removed or replaced.
    #[error(
        "{file} was removed or replaced while it is in use: new writes are lost when the process stops; run `master \
         backup` before you stop it, then restore that backup"
    )]
    Displaced {
        /// Original path.
        file: PathBuf,
    },
    /// A disk error; nothing was written.
    #[error("{file}: {reason}, nothing was written: check the disk and retry")]
    Failed {
        /// Store file.
        file: PathBuf,
        /// The failed operation and its error.
        reason: String,
        /// System error, if any.
        source: Option<Arc<io::Error>>,
    },
    /// A disk error. The write may have taken effect.
    #[error("{file}: {reason}; the write may have taken effect: read the object before you retry")]
    Unknown {
        /// Store file.
        file: PathBuf,
        /// The failed operation and its error.
        reason: String,
    },
    /// The file is damaged. The store did not modify it.
    #[error(
        "{file} is damaged or not a store ({reason}); it was not modified: move it away and restore a backup"
    )]
    Damaged {
        /// Store file.
        file: PathBuf,
        /// The error in the file.
        reason: String,
    },
    /// The file has a newer format. The store did not modify it.
    #[error(
        "{file} has format {found} but this program supports formats up to {known}; it was not modified: run the newer \
         program, or move the file away and restore a backup that an older program made"
    )]
    Newer {
        /// Store file.
        file: PathBuf,
        /// Format version of the file.
        found: u64,
        /// Latest supported format version.
        known: u64,
    },
    /// Another process has locked the directory.
    #[error("{directory} is in use by another process: stop that process, or specify another directory")]
    Locked {
        /// The locked directory.
        directory: PathBuf,
    },
    /// The file exists, and the operation does not overwrite it.
    #[error("{path} already exists and is not overwritten: move it away, or specify another path")]
    Exists {
        /// The existing file.
        path: PathBuf,
    },
    /// The remote store does not respond.
    #[error("the store at {store} does not respond: retry later")]
    Unreachable {
        /// Endpoints of the store.
        store: String,
    },
    /// The remote store rejects the client or the operation.
    #[error("the store at {store} rejects this client ({reason}): check its certificates and permissions")]
    Refused {
        /// Endpoints of the store.
        store: String,
        /// Message of the store.
        reason: String,
    },
    /// The store is shutting down.
    #[error("the store is closed because the process is shutting down")]
    Closed,
}

/// What a caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Retry later.
    Retry,
    /// Read the current state, then decide again.
    ReadAgain,
    /// List everything and watch from there.
    ListAgain,
    /// Free disk space, then retry.
    MakeRoom,
    /// Only an administrator can resolve the error.
    GiveUp,
}

impl Error {
    /// What the caller can do.
    pub fn advice(&self) -> Advice {
        match self {
            Self::Failed { .. } | Self::Unreachable { .. } => Advice::Retry,
            Self::Unknown { .. } => Advice::ReadAgain,
            Self::Compacted { .. } => Advice::ListAgain,
            Self::Full { .. } | Self::Quota { .. } => Advice::MakeRoom,
            Self::Invalid(_)
            | Self::Damaged { .. }
            | Self::Newer { .. }
            | Self::Locked { .. }
            | Self::Displaced { .. }
            | Self::Exists { .. }
            | Self::Refused { .. }
            | Self::Closed => Advice::GiveUp,
        }
    }
}
