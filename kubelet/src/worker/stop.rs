//! Ends a running container: asked first, forced later.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::apply::{Fault, Job, look};
use super::{Assignment, create, hooks};
use crate::observed::Timestamp;
use crate::plan::{self, MINIMUM_GRACE, StopReason};
use crate::runtime;

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
    let mut patience = Patience::new(job, grace);
    if grace > Duration::ZERO {
        tokio::select! {
            () = pre_stop(job, name, id, patience.ends_at) => {}
            () = patience.clone().runs_out() => {}
        }
        let signal = stop_signal(job, name, id);
        job.tools.runtime.signal(id, &signal).await?;
        patience.lasts(MINIMUM_GRACE);
        if patience.wait(job, id).await? {
            look(job, id).await?;
            return Ok(());
        }
    }
    kill(job, name, id).await
}

/// How long a container is waited for: as long as it was given when it was asked to end, or less once its pod is given less.
#[derive(Clone)]
struct Patience {
    ends_at: Instant,
    assigned: watch::Receiver<Assignment>,
}

impl Patience {
    fn new(job: &Job, grace: Duration) -> Self {
        Self { ends_at: Instant::now() + grace, assigned: job.assigned.clone() }
    }

    /// Goes by what the pod is given now; false when that is nothing at all.
    fn look(&mut self) -> bool {
        let assignment = self.assigned.borrow_and_update();
        let Some(ending) = &assignment.ending else { return true };
        let rest = plan::rest(ending, Timestamp::now());
        self.ends_at = self.ends_at.min(Instant::now() + rest);
        !rest.is_zero()
    }

    /// However long the hook before it took, a container has that long to hear that it is to end, unless it is given nothing at all.
    fn lasts(&mut self, least: Duration) {
        if self.look() {
            self.ends_at = self.ends_at.max(Instant::now() + least);
        }
    }

    /// Waits until the pod is given less time than it was.
    async fn shortened(&mut self) {
        let before = self.ends_at;
        while self.ends_at >= before {
            if self.assigned.changed().await.is_err() {
                return std::future::pending().await; // The kubelet is stopping.
            }
            self.look();
        }
    }

    /// Waits until the time is over.
    async fn runs_out(mut self) {
        loop {
            let until = self.ends_at;
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                () = self.shortened() => {}
            }
        }
    }

    /// Waits for the container; true when it has ended in time.
    async fn wait(mut self, job: &Job, id: &str) -> Result<bool, runtime::Error> {
        loop {
            let rest = self.ends_at.saturating_duration_since(Instant::now());
            tokio::select! {
                ended = job.tools.runtime.wait(id, rest) => return ended,
                () = self.shortened() => {}
            }
        }
    }
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
    let lifecycle = container.as_ref().and_then(|c| c.lifecycle.as_ref());
    let Some(hook) = lifecycle.and_then(|l| l.pre_stop.as_ref()) else { return };
    if let Err(message) = hooks::run(job, name, id, hook, Some(deadline)).await {
        job.warn(name, "FailedPreStopHook", format!("PreStopHook failed: {message}"));
    }
}

/// The signal that asks this container to end: its lifecycle's, its image's, or SIGTERM.
fn stop_signal(job: &Job, name: &str, id: &str) -> String {
    let container = create::find(&job.assignment.pod.pod, name);
    let wanted = container.as_ref().and_then(|c| c.lifecycle.as_ref()).and_then(|l| l.stop_signal.clone());
    let seen = job.observed.containers.iter().find(|c| c.id == id);
    wanted.or_else(|| seen.and_then(|c| c.stop_signal.clone())).unwrap_or_else(|| "SIGTERM".to_owned())
}
