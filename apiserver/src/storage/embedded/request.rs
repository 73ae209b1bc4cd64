//! Requests to the writer thread.

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::storage::{Error, Outcome, Revision, Transaction};

/// A request with its reply channel.
pub(super) struct Request {
    pub(super) work: Work,
    pub(super) reply: oneshot::Sender<Result<Outcome, Error>>,
    /// Permit for the space in the queue, released with the reply.
    pub(super) room: OwnedSemaphorePermit,
}

/// Work of the writer.
pub(super) enum Work {
    Commit(Transaction),
    /// Commit a transaction that may be deferred.
    CommitDeferred(Transaction),
    /// Compact the log up to this revision.
    Compact(Revision),
    /// Persist deferred writes and release reserved revisions.
    Flush,
    /// Reopen the file if it has failed.
    Reopen,
}

impl Work {
    /// The transaction of the request, if it has one.
    pub(super) fn transaction(&self) -> Option<&Transaction> {
        match self {
            Self::Commit(transaction) | Self::CommitDeferred(transaction) => Some(transaction),
            Self::Compact(_) | Self::Flush | Self::Reopen => None,
        }
    }

    /// The transaction of the request, if it may be deferred.
    pub(super) fn deferred(&self) -> Option<&Transaction> {
        match self {
            Self::CommitDeferred(transaction) => Some(transaction),
            Self::Commit(_) | Self::Compact(_) | Self::Flush | Self::Reopen => None,
        }
    }
}
