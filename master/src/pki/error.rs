//! Errors of reading and creating certificates, with their remedies.

use std::io;
use std::path::PathBuf;

/// An error that names the file and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be read or written.
    #[error("cannot {operation} {path}: {source}; check --data-dir and its file permissions")]
    Io {
        /// The failed operation (a verb).
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file is missing, damaged or does not match the others.
    #[error("{path} {fault}; nothing was changed: {remedy}")]
    Unusable {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with the file. The message shows it after the file.
        fault: String,
        /// What the user can do.
        remedy: String,
    },
    /// A certificate could not be signed.
    #[error("cannot create the certificate of {subject}: {fault}")]
    Signing {
        /// Common name of the certificate.
        subject: String,
        /// The message of the signing library.
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
