//! What etcd said no to, in the words of a store.

use super::channel::Failure;
use super::grpc::Status;
use crate::storage::Error;

/// True when etcd has decided: nothing was done, and asking again or elsewhere changes nothing.
pub(super) fn is_final(status: &Status) -> bool {
    match status.code {
        Status::INVALID_ARGUMENT
        | Status::PERMISSION_DENIED
        | Status::FAILED_PRECONDITION
        | Status::OUT_OF_RANGE
        | Status::UNIMPLEMENTED
        | Status::UNAUTHENTICATED => true,
        Status::RESOURCE_EXHAUSTED => is_full(status),
        _ => false,
    }
}

/// True when nothing was done, though asking again may help.
pub(super) fn is_not_done(failure: &Failure) -> bool {
    match failure {
        Failure::Unsent(_) => true,
        // Turned away at the door: too many requests.
        Failure::Refused(status) => status.code == Status::RESOURCE_EXHAUSTED,
        Failure::Unanswered(_) | Failure::Distrusted(_) | Failure::TooLarge => false,
    }
}

/// True when trying again, here or elsewhere, is in vain.
pub(super) fn is_in_vain(failure: &Failure) -> bool {
    match failure {
        Failure::Refused(status) => is_final(status),
        Failure::Distrusted(_) | Failure::TooLarge => true,
        Failure::Unsent(_) | Failure::Unanswered(_) => false,
    }
}

/// True when etcd has forgotten the revision it was asked for.
pub(super) fn is_compacted(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(status)
        if status.code == Status::OUT_OF_RANGE && status.message.contains("has been compacted"))
}

/// True when the revision it was asked for has not happened.
pub(super) fn is_future(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(status)
        if status.code == Status::OUT_OF_RANGE && status.message.contains("future revision"))
}

/// What whoever asked is told.
pub(super) fn error(store: &str, failure: &Failure) -> Error {
    match failure {
        Failure::Refused(status) if is_full(status) => {
            Error::Quota { store: store.to_owned(), reason: status.message.clone() }
        }
        Failure::Refused(status) if status.code == Status::INVALID_ARGUMENT => Error::Invalid(format!(
            "the etcd at {store} refuses this ({}): make it smaller, or raise etcd's --max-request-bytes or --max-txn-ops",
            status.message
        )),
        Failure::Refused(status) if is_final(status) => {
            Error::Refused { store: store.to_owned(), reason: status.message.clone() }
        }
        Failure::Distrusted(reason) => Error::Refused { store: store.to_owned(), reason: reason.clone() },
        Failure::Refused(_) | Failure::Unsent(_) | Failure::Unanswered(_) | Failure::TooLarge => {
            Error::Unreachable { store: format!("{store} ({})", reason(failure)) }
        }
    }
}

/// What happened, for the log and for messages.
pub(super) fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Unsent(reason) | Failure::Unanswered(reason) | Failure::Distrusted(reason) => reason.clone(),
        Failure::Refused(status) => status.message.clone(),
        Failure::TooLarge => "an answer too large to be held".to_owned(),
    }
}

/// What etcd's status says of itself, where it is that it takes no more.
pub(super) fn alarm(errors: &[String]) -> Option<&String> {
    errors.iter().find(|error| error.contains("NOSPACE"))
}

fn is_full(status: &Status) -> bool {
    status.code == Status::RESOURCE_EXHAUSTED && status.message.contains("database space exceeded")
}
