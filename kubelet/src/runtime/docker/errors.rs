//! Classifies errors of the Docker engine.

use std::future::Future;
use std::time::Duration;

use bollard::errors::Error as Engine;

use crate::runtime::{Error, Refusal};

/// Timeout of queries. A healthy engine answers in milliseconds; a busy one with hundreds of containers took
/// seconds.
pub(super) const QUERY_TIMEOUT: Duration = Duration::from_secs(15);

/// Timeout of operations such as create, start and remove, which queue inside a loaded engine.
pub(super) const WORK_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs a request with a timeout, and classifies its error. `what` names the container or image.
pub(super) async fn with_timeout<T>(
    limit: Duration,
    operation: &'static str,
    what: &str,
    request: impl Future<Output = Result<T, Engine>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, request).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(classify(operation, what, error)),
        Err(_) => Err(timed_out(operation, limit)),
    }
}

/// The error for a timeout.
pub(super) fn timed_out(operation: &'static str, limit: Duration) -> Error {
    Error::Unreachable { operation, message: format!("no answer within {} seconds", limit.as_secs()) }
}

/// Classifies an error by what the caller can do.
pub(super) fn classify(operation: &'static str, what: &str, error: Engine) -> Error {
    match error {
        Engine::DockerResponseServerError { status_code, message } => {
            classify_status(operation, what, status_code, &message)
        }
        Engine::DockerStreamError { error } => {
            Error::Refused { operation, message: clean(&error), cause: cause(&error) }
        }
        Engine::RequestTimeoutError => timed_out(operation, QUERY_TIMEOUT),
        other => Error::Unreachable { operation, message: chain(&other) },
    }
}

/// Classifies an HTTP error status.
pub(super) fn classify_status(operation: &'static str, what: &str, status: u16, message: &str) -> Error {
    match status {
        404 => Error::NotFound { what: if message.is_empty() { what.to_owned() } else { clean(message) } },
        502..=504 => Error::Unreachable { operation, message: clean(message) },
        _ if engine_is_down(message) => Error::Unreachable { operation, message: clean(message) },
        409 => Error::Refused { operation, message: clean(message), cause: Refusal::Conflict },
        _ => Error::Refused { operation, message: clean(message), cause: cause(message) },
    }
}

/// Texts by which causes are recognized if the engine reports no status of its own for them. They come from runc
/// and from registries. The first match decides.
const CAUSES: [(&str, Refusal); 11] = [
    ("oom_score_adj", Refusal::OomScore),
    ("can't get final child's PID from pipe", Refusal::ChildDied),
    ("unable to apply caps", Refusal::Capabilities),
    ("unable to apply bounding set", Refusal::Capabilities),
    ("unauthorized", Refusal::AccessDenied),
    ("authentication required", Refusal::AccessDenied),
    ("no basic auth", Refusal::AccessDenied),
    ("access denied", Refusal::AccessDenied),
    ("\": denied", Refusal::AccessDenied),
    ("forbidden", Refusal::AccessDenied),
    ("toomanyrequests", Refusal::AccessDenied),
];

/// The cause of a rejection, found by its text. No other code of the kubelet reads messages of the engine.
fn cause(message: &str) -> Refusal {
    let message = message.to_lowercase();
    let found = CAUSES.iter().find(|(text, _)| message.contains(&text.to_lowercase()));
    found.map_or(Refusal::Other, |(_, cause)| *cause)
}

/// Whether dockerd reports that its containerd is unavailable, which is temporary.
fn engine_is_down(message: &str) -> bool {
    message.contains("containerd.sock") && message.contains("connect")
        || message.contains("transport is closing")
        || message.contains("ttrpc: closed")
}

/// The message without the prefixes that intermediate layers add.
pub(super) fn clean(message: &str) -> String {
    const LAYERS: [&str; 6] = [
        "Error response from daemon: ",
        "failed to create shim task: ",
        "failed to create task for container: ",
        "OCI runtime create failed: ",
        "runc create failed: ",
        "container_linux.go:",
    ];
    let mut rest = message.trim();
    while let Some(inner) = LAYERS.iter().find_map(|layer| rest.strip_prefix(layer)) {
        rest = inner.trim_start();
    }
    rest.strip_suffix(": unknown").unwrap_or(rest).to_owned()
}

/// Whether the container does not exist.
pub(super) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. })
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
