//! What the writer of a store is asked to do.

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::storage::{Error, Outcome, Revision, Transaction};

/// Something to do and whom to tell.
pub(super) struct Request {
    pub(super) work: Work,
    pub(super) reply: oneshot::Sender<Result<Outcome, Error>>,
    /// Its part of the queue, free again when it is answered.
    pub(super) room: OwnedSemaphorePermit,
}

/// Something to do.
pub(super) enum Work {
    Commit(Transaction),
    /// The same, and it may be on the disk after it is answered.
    CommitLate(Transaction),
    /// Forget the log up to this revision.
    Compact(Revision),
    /// Bring to the disk what is late, and give back what is set aside for more.
    Rest,
    /// Open the file anew if it has failed.
    Mend,
}

impl Work {
    /// The write that is asked for, if it may be late.
    pub(super) fn late(&self) -> Option<&Transaction> {
        match self {
            Self::CommitLate(transaction) => Some(transaction),
            Self::Commit(_) | Self::Compact(_) | Self::Rest | Self::Mend => None,
        }
    }
}
