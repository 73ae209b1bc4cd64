//! Stops running containers: first gracefully, then by force.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::apply::{ActionContext, ActionError, refresh};
use super::{Assignment, create, hooks};
use crate::observed::Timestamp;
use crate::plan::{self, MINIMUM_GRACE, StopReason};
use crate::runtime;

/// How long a killed container may take to exit before the attempt counts as failed.
const KILL_WAIT: Duration = Duration::from_secs(30);

/// Runs the preStop hook, sends the stop signal, waits for the grace period, and kills the container.
pub(super) async fn container(
    job: &ActionContext,
    name: &str,
    id: &str,
    grace: Duration,
    reason: StopReason,
) -> Result<(), ActionError> {
    let why = match reason {
        StopReason::PodEnds => String::new(),
        StopReason::Changed => ": its definition changed, it will be restarted".to_owned(),
        StopReason::Dropped => ": the pod no longer lists it".to_owned(),
        StopReason::Unhealthy => ": it failed its liveness probe, it will be restarted".to_owned(),
        StopReason::NeverStarted => ": it failed its startup probe, it will be restarted".to_owned(),
        StopReason::SandboxLost => ": its sandbox is gone or changed".to_owned(),
    };
    job.normal(name, "Killing", format!("Stopping container {name}{why}"));
    let mut timer = GraceTimer::new(job, grace);
    if grace > Duration::ZERO {
        tokio::select! {
            () = pre_stop(job, name, id, timer.ends_at) => {}
            () = timer.clone().expired() => {}
        }
        let signal = stop_signal(job, name, id);
        job.deps.runtime.signal(id, &signal).await?;
        timer.extend_to(MINIMUM_GRACE);
        if timer.wait(job, id).await? {
            refresh(job, id).await?;
            return Ok(());
        }
    }
    kill(job, name, id).await
}

/// The remaining grace period of a container. It is shortened when the grace period of the pod is shortened.
#[derive(Clone)]
struct GraceTimer {
    ends_at: Instant,
    assigned: watch::Receiver<Assignment>,
}

impl GraceTimer {
    fn new(job: &ActionContext, grace: Duration) -> Self {
        Self { ends_at: Instant::now() + grace, assigned: job.assigned.clone() }
    }

    /// Applies the pod's current grace period. Returns false if it is zero.
    fn refresh(&mut self) -> bool {
        let assignment = self.assigned.borrow_and_update();
        let Some(ending) = &assignment.ending else { return true };
        let rest = plan::remaining_grace(ending, Timestamp::now());
        self.ends_at = self.ends_at.min(Instant::now() + rest);
        !rest.is_zero()
    }

    /// Ensures a minimum time after the preStop hook, unless the grace period is zero.
    fn extend_to(&mut self, least: Duration) {
        if self.refresh() {
            self.ends_at = self.ends_at.max(Instant::now() + least);
        }
    }

    /// Waits until the grace period becomes shorter.
    async fn shortened(&mut self) {
        let before = self.ends_at;
        while self.ends_at >= before {
            if self.assigned.changed().await.is_err() {
                return std::future::pending().await; // The kubelet is stopping.
            }
            self.refresh();
        }
    }

    /// Waits until the grace period expires.
    async fn expired(mut self) {
        loop {
            let until = self.ends_at;
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                () = self.shortened() => {}
            }
        }
    }

    /// Waits for the container. Returns true if it has exited in time.
    async fn wait(mut self, job: &ActionContext, id: &str) -> Result<bool, runtime::Error> {
        loop {
            let rest = self.ends_at.saturating_duration_since(Instant::now());
            tokio::select! {
                ended = job.deps.runtime.wait(id, rest) => return ended,
                () = self.shortened() => {}
            }
        }
    }
}

/// Kills a container.
pub(super) async fn forced(job: &ActionContext, name: &str, id: &str, why: &str) -> Result<(), ActionError> {
    job.normal(name, "Killing", format!("Stopping container {name}: {why}"));
    kill(job, name, id).await
}

async fn kill(job: &ActionContext, name: &str, id: &str) -> Result<(), ActionError> {
    job.deps.runtime.signal(id, "SIGKILL").await?;
    if job.deps.runtime.wait(id, KILL_WAIT).await? {
        refresh(job, id).await?;
        return Ok(());
    }
    let message =
        format!("container {name} did not exit after SIGKILL; one of its processes may hang in the kernel");
    Err(ActionError::transient("Terminating", "FailedKillPod", message))
}

async fn pre_stop(job: &ActionContext, name: &str, id: &str, deadline: Instant) {
    let container = create::find(&job.assignment.pod.pod, name);
    let lifecycle = container.as_ref().and_then(|c| c.lifecycle.as_ref());
    let Some(hook) = lifecycle.and_then(|l| l.pre_stop.as_ref()) else { return };
    if let Err(message) = hooks::run(job, name, id, hook, Some(deadline)).await {
        job.warn(name, "FailedPreStopHook", format!("PreStopHook failed: {message}"));
    }
}

/// The stop signal of the container: that of its lifecycle, otherwise that of its image, otherwise SIGTERM.
fn stop_signal(job: &ActionContext, name: &str, id: &str) -> String {
    let container = create::find(&job.assignment.pod.pod, name);
    let wanted = container.as_ref().and_then(|c| c.lifecycle.as_ref()).and_then(|l| l.stop_signal.clone());
    let seen = job.observed.containers.iter().find(|c| c.id == id);
    wanted.or_else(|| seen.and_then(|c| c.stop_signal.clone())).unwrap_or_else(|| "SIGTERM".to_owned())
}
