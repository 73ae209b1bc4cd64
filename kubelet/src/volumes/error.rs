//! Errors of volume operations.

use std::io;
use std::path::Path;

/// Error of a volume operation, for an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Volume name. It is empty if the error concerns the pod's directory.
    pub volume: String,
    /// Reason of the event.
    pub reason: &'static str,
    /// The message: what happened and what to do.
    pub message: String,
}

impl Error {
    /// The error for a volume that cannot be mounted.
    pub(super) fn mount(volume: &str, message: impl std::fmt::Display) -> Self {
        Self {
            volume: volume.to_owned(),
            reason: "FailedMount",
            message: format!("MountVolume.SetUp failed for volume {volume:?}: {message}"),
        }
    }

    /// The error for a volume that cannot be mounted into a container.
    pub(super) fn container(volume: &str, container: &str, message: impl std::fmt::Display) -> Self {
        Self {
            volume: volume.to_owned(),
            reason: "CreateContainerConfigError",
            message: format!("volume {volume:?} cannot be mounted into container {container:?}: {message}"),
        }
    }

    /// The error for an operation on the pod's directory.
    pub(super) fn pod(message: impl Into<String>) -> Self {
        Self { volume: String::new(), reason: "FailedMount", message: message.into() }
    }
}

/// An I/O error with operation and path.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {path}: {source}")]
pub(super) struct PathError {
    operation: &'static str,
    path: String,
    /// The I/O error.
    pub source: io::Error,
}

/// Adds operation and path to an I/O error.
pub(super) fn at(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> PathError {
    move |source| PathError { operation, path: path.display().to_string(), source }
}
