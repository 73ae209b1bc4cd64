//! Maps I/O and database errors to storage errors.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::storage::Error;

/// The storage error for a failed file operation.
pub(super) fn at_file(path: &Path, error: io::Error) -> Error {
    let file = path.to_owned();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::Full { file, source: Arc::new(error) }
        }
        _ => {
            let reason = format!("it cannot be used: {error}");
            Error::Failed { file, reason, source: Some(Arc::new(error)) }
        }
    }
}

/// The storage error for a database error.
pub(super) fn in_database(path: &Path, error: redb::Error) -> Error {
    let file = path.to_owned();
    match error {
        redb::Error::Io(error) => at_file(path, error),
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => Error::Failed {
            file,
            reason: "it was closed after an earlier disk failure".to_owned(),
            source: None,
        },
        error if is_damage(&error) => Error::Damaged { file, reason: error.to_string() },
        error => Error::Failed { file, reason: error.to_string(), source: None },
    }
}

/// The storage error for a failed inspection before opening. Unreadable content counts as damage.
pub(super) fn on_look(path: &Path, error: redb::Error) -> Error {
    match error {
        redb::Error::Io(error)
            if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            Error::Damaged { file: path.to_owned(), reason: error.to_string() }
        }
        error => in_database(path, error),
    }
}

/// True if the disk is full.
pub(super) fn is_full(error: &redb::Error) -> bool {
    matches!(error, redb::Error::Io(error)
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}

/// True if it may help to reopen the file.
pub(super) fn is_broken(error: &redb::Error) -> bool {
    matches!(error, redb::Error::Io(_) | redb::Error::PreviousIo | redb::Error::DatabaseClosed)
}

fn is_damage(error: &redb::Error) -> bool {
    matches!(
        error,
        redb::Error::Corrupted(_)
            | redb::Error::UpgradeRequired(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableIsMultimap(_)
            | redb::Error::TypeDefinitionChanged { .. }
            | redb::Error::TableDoesNotExist(_)
    )
}
