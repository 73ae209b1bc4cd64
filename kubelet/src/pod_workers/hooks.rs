//! Runs lifecycle hooks of containers.

use std::time::Duration;

use k8s_openapi::api::core::v1::LifecycleHandler;
use tokio::time::Instant;

use super::apply::ActionContext;
use super::create::find;
use crate::probes::handler::{self, Outcome};

/// Timeout of a hook without deadline. It is practically unlimited, as in the stock kubelet. Termination of the pod
/// aborts the hook.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Runs a hook until it ends or the deadline expires.
///
/// # Errors
/// If the hook fails. The error is the message of an event.
pub(super) async fn run(
    job: &ActionContext,
    name: &str,
    id: &str,
    hook: &LifecycleHandler,
    deadline: Option<Instant>,
) -> Result<(), String> {
    let within = deadline.map_or(LONGEST, |at| at.saturating_duration_since(Instant::now()));
    let work = act(job, name, id, hook, within);
    match tokio::time::timeout(within, work).await {
        Ok(result) => result,
        Err(_) => Err(format!("it did not end within {} s", within.as_secs())),
    }
}

async fn act(
    job: &ActionContext,
    name: &str,
    id: &str,
    hook: &LifecycleHandler,
    within: Duration,
) -> Result<(), String> {
    let pod = &job.assignment.pod.pod;
    let Some(container) = find(pod, name) else { return Ok(()) };
    let ports = container.ports.as_deref().unwrap_or_default();
    let ip = job.facts().pod_ips(pod, job.deps.pleg.pod(&job.uid).sandbox()).first().copied();
    let outcome = if let Some(exec) = &hook.exec {
        let env = container.env.as_deref().unwrap_or_default();
        handler::exec(job.deps.runtime.as_ref(), id, exec, env, within).await
    } else if let Some(http) = &hook.http_get {
        handler::http_notify(http, ports, ip, within).await
    } else if let Some(tcp) = &hook.tcp_socket {
        handler::tcp_socket(tcp, ports, ip, within).await
    } else if let Some(sleep) = &hook.sleep {
        handler::sleep(sleep).await
    } else {
        Outcome::Success
    };
    match outcome {
        Outcome::Success | Outcome::Warning(_) => Ok(()),
        Outcome::Failure(message) | Outcome::Unknown(message) => Err(message),
    }
}
