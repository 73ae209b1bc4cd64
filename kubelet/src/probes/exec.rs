//! Exec probe: succeeds if a command in the container exits with 0.

use std::time::Duration;

use k8s_openapi::api::core::v1::{EnvVar, ExecAction};

use super::check::Outcome;
use crate::runtime::Runtime;

/// Maximum bytes of output for the failure message; the limit of the stock kubelet.
const OUTPUT_LIMIT: usize = 10 * 1024;
/// How much longer than the probe timeout the engine may take before it counts as hung.
const ENGINE_SLACK: Duration = Duration::from_secs(2);

/// The command, with each `$(NAME)` replaced by the literal environment value of the container. Other names stay
/// unchanged, and `$$` is a dollar sign.
pub(super) fn command(action: &ExecAction, env: &[EnvVar]) -> Vec<String> {
    let literal = |name: &str| {
        let var = env.iter().rev().find(|var| var.name == name && var.value_from.is_none())?;
        Some(var.value.as_deref().unwrap_or_default())
    };
    action.command.iter().flatten().map(|word| api::expand::expand(word, literal).into_owned()).collect()
}

/// Runs the command with a timeout.
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
            Some(code) => Outcome::Failure(failure_message(code, &done.output)),
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

/// The message for a failed command: its output, or its exit code if it printed nothing.
fn failure_message(exit_code: i32, output: &[u8]) -> String {
    let output = String::from_utf8_lossy(output);
    if output.trim().is_empty() {
        format!("command ended with exit code {exit_code}")
    } else {
        output.into_owned()
    }
}
