//! Why certificates cannot be made or used, and what a person does about it.

use std::io;
use std::path::PathBuf;

/// A failure that names the file and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system refuses.
    #[error("cannot {operation} {path}: {source}; check --data-dir and who may read and write there")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path} {fault}; nothing was changed: {remedy}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The end of a sentence that begins with the file.
        fault: String,
        /// What to do.
        remedy: String,
    },
    /// A certificate could not be made.
    #[error("cannot make the certificate of {subject}: {fault}")]
    Signing {
        /// For whom.
        subject: String,
        /// What went wrong.
        fault: String,
    },
}

impl Error {
    pub(super) fn io(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { operation, path, source }
    }

    pub(super) fn unusable(
        path: impl Into<PathBuf>,
        fault: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Unusable { path: path.into(), fault: fault.into(), remedy: remedy.into() }
    }
}
