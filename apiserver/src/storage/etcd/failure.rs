//! Maps etcd errors to storage errors.

use super::channel::Failure;
use super::grpc::{EtcdError, Status};
use crate::storage::Error;

/// True if etcd has rejected the request permanently, so that no retry can succeed.
pub(super) fn is_final(status: &Status) -> bool {
    match status.code {
        Status::INVALID_ARGUMENT
        | Status::PERMISSION_DENIED
        | Status::FAILED_PRECONDITION
        | Status::OUT_OF_RANGE
        | Status::UNIMPLEMENTED
        | Status::UNAUTHENTICATED => true,
        Status::RESOURCE_EXHAUSTED => status.error == Some(EtcdError::NoSpace),
        _ => false,
    }
}

/// True if the request was not executed, so that a retry may succeed.
pub(super) fn is_unapplied(failure: &Failure) -> bool {
    match failure {
        Failure::Unsent(_) => true,
        // Rejected before execution: too many requests.
        Failure::Refused(status) => status.code == Status::RESOURCE_EXHAUSTED,
        Failure::Unanswered(_) | Failure::Distrusted(_) | Failure::TooLarge => false,
    }
}

/// True if no retry on any member can succeed.
pub(super) fn is_permanent(failure: &Failure) -> bool {
    match failure {
        Failure::Refused(status) => is_final(status),
        Failure::Distrusted(_) | Failure::TooLarge => true,
        Failure::Unsent(_) | Failure::Unanswered(_) => false,
    }
}

/// The error of etcd, if it is one that callers handle.
pub(super) fn etcd_error(failure: &Failure) -> Option<EtcdError> {
    match failure {
        Failure::Refused(status) => status.error,
        Failure::Unsent(_) | Failure::Unanswered(_) | Failure::Distrusted(_) | Failure::TooLarge => None,
    }
}

/// The storage error for a failure.
pub(super) fn error(store: &str, failure: &Failure) -> Error {
    match failure {
        Failure::Refused(status) if status.error == Some(EtcdError::NoSpace) => {
            Error::Quota { store: store.to_owned(), reason: status.message.clone() }
        }
        Failure::Refused(status) if status.code == Status::INVALID_ARGUMENT => Error::Invalid(format!(
            "the etcd at {store} rejects the request ({}): make it smaller, or raise etcd's --max-request-bytes or --max-txn-ops",
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

/// The message of a failure.
pub(super) fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Unsent(reason) | Failure::Unanswered(reason) | Failure::Distrusted(reason) => reason.clone(),
        Failure::Refused(status) => status.message.clone(),
        Failure::TooLarge => "the response is too large".to_owned(),
    }
}

/// Returns the NOSPACE alarm of a status response. The response reports alarms only as error texts.
pub(super) fn alarm(errors: &[String]) -> Option<&String> {
    errors.iter().find(|error| error.contains("NOSPACE"))
}
