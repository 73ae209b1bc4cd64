//! What can go wrong with a store, told by what the caller may do about it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::Revision;

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The log does not reach back that far.
    #[error("revision {asked} is too old, the log begins after {oldest}: list again and watch from there")]
    Compacted {
        /// The revision asked for.
        asked: Revision,
        /// The oldest one that can be gone on from.
        oldest: Revision,
    },
    /// What was asked can never be done; the text says why and what to change.
    #[error("{0}")]
    Invalid(String),
    /// There was no room on the disk, and nothing was written.
    #[error(
        "{file}: no room left on the disk, nothing was written: make room and try again; deleting objects needs \
         room as well"
    )]
    Full {
        /// The file that could not grow.
        file: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// An etcd is as large as it may become, and nothing was written.
    #[error(
        "the etcd at {store} is full ({reason}), nothing was written: it has reached its --quota-backend-bytes; free space with `etcdctl \
         defrag`, then `etcdctl alarm disarm`, or start it with a larger quota"
    )]
    Quota {
        /// Where it is.
        store: String,
        /// What it says.
        reason: String,
    },
    /// The file that is open is not the one in its place any more.
    #[error(
        "{file} was removed or replaced while it is in use: what is written now is lost with the process; save it with `master \
         backup` before anything is stopped, then restore that"
    )]
    Displaced {
        /// Where it was.
        file: PathBuf,
    },
    /// The disk failed, and nothing was written.
    #[error("{file}: {reason}, nothing was written: look after the disk and try again")]
    Failed {
        /// The file that could not be used.
        file: PathBuf,
        /// What failed.
        reason: String,
        /// What the system said, if it was asked.
        source: Option<Arc<io::Error>>,
    },
    /// The disk failed so late that the write may have happened.
    #[error("{file}: {reason}, and it is not known whether this was written: read before you write again")]
    Unknown {
        /// The file that could not be used.
        file: PathBuf,
        /// What failed.
        reason: String,
    },
    /// The file is not what the store once wrote. It was not touched.
    #[error(
        "{file} is damaged or not a store ({reason}); it was left as it is: move it away and restore a backup"
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is of a later format. It was not touched.
    #[error(
        "{file} has format {found} and this program knows formats up to {known}; it was left as it is: run the newer \
         program, or move the file away and restore a backup that an older program made"
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its format.
        found: u64,
        /// The latest format known here.
        known: u64,
    },
    /// Another process has the directory open.
    #[error("{directory} is in use by another process: stop that one, or name another directory")]
    Locked {
        /// The directory.
        directory: PathBuf,
    },
    /// There is a file already, and it is not overwritten.
    #[error("{path} is there already and is never overwritten: move it away, or name another path")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A store elsewhere does not answer.
    #[error("the store at {store} does not answer: try again")]
    Unreachable {
        /// Where it should be.
        store: String,
    },
    /// A store elsewhere will not have this client, or not do what it needs.
    #[error("the store at {store} refuses this program ({reason}): look at its certificates and permissions")]
    Refused {
        /// Where it is.
        store: String,
        /// What it says.
        reason: String,
    },
    /// The store is shutting down.
    #[error("the store is closed because the process is shutting down")]
    Closed,
}

/// What a caller may do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Try the same again in a while.
    Retry,
    /// Read what is there, then decide again.
    ReadAgain,
    /// List everything and watch from there.
    ListAgain,
    /// Ask for room on the disk, then try the same again.
    MakeRoom,
    /// Nothing will change unless a person does something.
    GiveUp,
}

impl Error {
    /// What a caller may do.
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
