//! Why a volume could not be made, mounted or taken down.

use std::io;
use std::path::Path;

/// What failed, for an event and for whoever wrote the pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The volume's name, empty when it is about the pod's directory.
    pub volume: String,
    /// The event's reason.
    pub reason: &'static str,
    /// What happened, to what, what to do.
    pub message: String,
}

impl Error {
    /// A volume could not be made.
    pub(super) fn mount(volume: &str, message: impl std::fmt::Display) -> Self {
        Self {
            volume: volume.to_owned(),
            reason: "FailedMount",
            message: format!("MountVolume.SetUp failed for volume {volume:?}: {message}"),
        }
    }

    /// A mount of a container could not be made.
    pub(super) fn container(volume: &str, container: &str, message: impl std::fmt::Display) -> Self {
        Self {
            volume: volume.to_owned(),
            reason: "CreateContainerConfigError",
            message: format!("volume {volume:?} cannot be mounted into container {container:?}: {message}"),
        }
    }

    /// The pod's directory could not be worked on.
    pub(super) fn pod(message: impl Into<String>) -> Self {
        Self { volume: String::new(), reason: "FailedMount", message: message.into() }
    }
}

/// An I/O error with the operation and the path it was about.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {path}: {source}")]
pub(super) struct PathError {
    operation: &'static str,
    path: String,
    /// What the kernel said.
    pub source: io::Error,
}

/// Names operation and path of an I/O error.
pub(super) fn at(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> PathError {
    move |source| PathError { operation, path: path.display().to_string(), source }
}
