//! Why a pod cannot be made into containers, in words for whoever wrote it.

/// A pod asks for something that cannot be made as it stands; trying again helps only after the pod, the node or what it refers to has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConfigError {
    /// The reason for events and for a waiting container.
    pub reason: &'static str,
    /// What is wrong, with what, and what to do.
    pub message: String,
}

impl ConfigError {
    /// A container that cannot be described to the engine.
    pub(crate) fn container(message: impl Into<String>) -> Self {
        Self { reason: "CreateContainerConfigError", message: message.into() }
    }

    /// A sandbox that cannot be described to the engine.
    pub(crate) fn sandbox(message: impl Into<String>) -> Self {
        Self { reason: "FailedCreatePodSandBox", message: message.into() }
    }
}

/// Something a pod's owner should know of although the pod runs; becomes a warning event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The event's reason.
    pub reason: &'static str,
    /// The event's message.
    pub message: String,
}
