//! What the engine's errors mean to a caller.

use std::future::Future;
use std::time::Duration;

use bollard::errors::Error as Engine;

use crate::runtime::Error;

/// Questions that the engine answers from memory. A healthy one needs milliseconds; a busy one with hundreds of
/// containers has been seen to need seconds.
pub(super) const ASK: Duration = Duration::from_secs(15);

/// Requests that make the engine work (create, start, remove): under load they queue inside it.
pub(super) const WORK: Duration = Duration::from_secs(120);

/// Waits for a request at most so long and says what its failure means; `what` names the container or image.
pub(super) async fn within<T>(
    limit: Duration,
    operation: &'static str,
    what: &str,
    request: impl Future<Output = Result<T, Engine>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, request).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(meaning(operation, what, error)),
        Err(_) => Err(late(operation, limit)),
    }
}

/// The engine took too long.
pub(super) fn late(operation: &'static str, limit: Duration) -> Error {
    Error::Unreachable { operation, message: format!("no answer within {} seconds", limit.as_secs()) }
}

/// Sorts an error by what a caller may do.
pub(super) fn meaning(operation: &'static str, what: &str, error: Engine) -> Error {
    match error {
        Engine::DockerResponseServerError { status_code, message } => {
            answer(operation, what, status_code, &message)
        }
        Engine::DockerStreamError { error } => Error::Refused { operation, message: clean(&error) },
        Engine::RequestTimeoutError => late(operation, ASK),
        other => Error::Unreachable { operation, message: chain(&other) },
    }
}

/// Sorts a response that is not a success.
pub(super) fn answer(operation: &'static str, what: &str, status: u16, message: &str) -> Error {
    match status {
        404 => Error::NotFound { what: if message.is_empty() { what.to_owned() } else { clean(message) } },
        502..=504 => Error::Unreachable { operation, message: clean(message) },
        _ if engine_is_down(message) => Error::Unreachable { operation, message: clean(message) },
        _ => Error::Refused { operation, message: clean(message) },
    }
}

/// dockerd answers 500 while the containerd behind it is away: that passes and is nobody's fault.
fn engine_is_down(message: &str) -> bool {
    message.contains("containerd.sock") && message.contains("connect")
        || message.contains("transport is closing")
        || message.contains("ttrpc: closed")
}

/// The message without the layers it passed through, which say nothing to whoever reads it.
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

/// True when a container of that name or id is not there, which whoever wanted it gone is glad to hear.
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
