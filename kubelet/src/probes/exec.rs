//! exec: it is healthy when a command in the container ends with 0.

use std::time::Duration;

use k8s_openapi::api::core::v1::{EnvVar, ExecAction};

use super::check::Outcome;
use crate::runtime::Runtime;

/// Output kept, bytes; the stock kubelet's limit.
const OUTPUT_LIMIT: usize = 10 * 1024;
/// How much longer than asked the engine may take before it counts as hung.
const ENGINE_SLACK: Duration = Duration::from_secs(2);

/// The command with `$(NAME)` replaced by what the container's environment says literally; a name it does not give
/// literally stays as it is, and `$$` is a dollar sign.
pub(super) fn command(action: &ExecAction, env: &[EnvVar]) -> Vec<String> {
    let literal = |name: &str| {
        let var = env.iter().rev().find(|var| var.name == name && var.value_from.is_none())?;
        Some(var.value.as_deref().unwrap_or_default())
    };
    action.command.iter().flatten().map(|word| api::expand::expand(word, literal).into_owned()).collect()
}

/// Runs the command, at most so long.
pub(super) async fn run(
    runtime: &dyn Runtime,
    container_id: &str,
    command: &[String],
    timeout: Duration,
) -> Outcome {
    let exec = runtime.exec(container_id, command, timeout, OUTPUT_LIMIT);
    match tokio::time::timeout(timeout + ENGINE_SLACK, exec).await {
        Ok(Ok(done)) => match done.exit_code {
            Some(0) => Outcome::Success,
            Some(code) => Outcome::Failure(said(code, &done.output)),
            None => Outcome::Failure(format!(
                "command timed out: {:?} timed out after {}s",
                command.join(" "),
                timeout.as_secs()
            )),
        },
        Ok(Err(error)) => Outcome::Unknown(error.to_string()),
        Err(_) => Outcome::Unknown(format!(
            "the container engine did not answer within {}s; look at its log",
            (timeout + ENGINE_SLACK).as_secs()
        )),
    }
}

/// What a failed command said, or its exit code when it said nothing.
fn said(exit_code: i32, output: &[u8]) -> String {
    let output = String::from_utf8_lossy(output);
    if output.trim().is_empty() {
        format!("command ended with exit code {exit_code}")
    } else {
        output.into_owned()
    }
}
