//! Ends a running container: asked first, forced later.

use std::time::Duration;

use tokio::time::Instant;

use super::apply::{Fault, Job, look};
use super::{create, hooks};
use crate::plan::{MINIMUM_GRACE, StopReason};

/// How long a killed container may take to be gone before the attempt counts as failed.
const KILL_WAIT: Duration = Duration::from_secs(30);

/// Runs the preStop hook, sends the stop signal, waits out the grace and kills.
pub(super) async fn container(
    job: &Job,
    name: &str,
    id: &str,
    grace: Duration,
    reason: StopReason,
) -> Result<(), Fault> {
    let why = match reason {
        StopReason::PodEnds => String::new(),
        StopReason::Changed => ": its definition changed, it will be restarted".to_owned(),
        StopReason::Dropped => ": the pod no longer has it".to_owned(),
        StopReason::Unhealthy => ": it failed its liveness probe, it will be restarted".to_owned(),
        StopReason::NeverStarted => ": it failed its startup probe, it will be restarted".to_owned(),
        StopReason::SandboxLost => ": its sandbox is gone or changed".to_owned(),
    };
    job.normal(name, "Killing", format!("Stopping container {name}{why}"));
    let deadline = Instant::now() + grace;
    if grace > Duration::ZERO {
        pre_stop(job, name, id, deadline).await;
        let signal = stop_signal(job, name, id);
        job.tools.runtime.signal(id, &signal).await?;
        let rest = deadline.saturating_duration_since(Instant::now()).max(MINIMUM_GRACE);
        if job.tools.runtime.wait(id, rest).await? {
            look(job, id).await?;
            return Ok(());
        }
    }
    kill(job, name, id).await
}

/// Ends a container at once.
pub(super) async fn forced(job: &Job, name: &str, id: &str, why: &str) -> Result<(), Fault> {
    job.normal(name, "Killing", format!("Stopping container {name}: {why}"));
    kill(job, name, id).await
}

async fn kill(job: &Job, name: &str, id: &str) -> Result<(), Fault> {
    job.tools.runtime.signal(id, "SIGKILL").await?;
    if job.tools.runtime.wait(id, KILL_WAIT).await? {
        look(job, id).await?;
        return Ok(());
    }
    let message =
        format!("container {name} does not end though it was killed; a process of it may hang in the kernel");
    Err(Fault::passing("Terminating", "FailedKillPod", message))
}

async fn pre_stop(job: &Job, name: &str, id: &str, deadline: Instant) {
    let container = create::find(&job.assignment.pod.pod, name);
    let Some(hook) = container.and_then(|c| c.lifecycle.as_ref()).and_then(|l| l.pre_stop.as_ref()) else {
        return;
    };
    if let Err(message) = hooks::run(job, name, id, hook, Some(deadline)).await {
        job.warn(name, "FailedPreStopHook", format!("PreStopHook failed: {message}"));
    }
}

/// The signal that asks this container to end: its lifecycle's, its image's, or SIGTERM.
fn stop_signal(job: &Job, name: &str, id: &str) -> String {
    let container = create::find(&job.assignment.pod.pod, name);
    let wanted = container.and_then(|c| c.lifecycle.as_ref()).and_then(|l| l.stop_signal.clone());
    let seen = job.observed.containers.iter().find(|c| c.id == id);
    wanted.or_else(|| seen.and_then(|c| c.stop_signal.clone())).unwrap_or_else(|| "SIGTERM".to_owned())
}
