//! Reports the state of the kubelet to the service manager (a systemd unit with `Type=notify`).

use std::sync::Arc;
use std::time::Duration;

use apiserver::tasks::Tasks;
use command::ServiceManager;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use crate::desired::{Completeness, Desired};
use crate::health::Health;
use crate::pleg::EngineHealth;

/// How long a source may delay the end of the start, after the engine has answered. A URL may not answer for days, and
/// the pods of the other sources run meanwhile.
const SOURCES_TIMEOUT: Duration = Duration::from_secs(30);

/// What the reports are about.
pub(super) struct State {
    pub engine: watch::Receiver<EngineHealth>,
    pub desired: watch::Receiver<Arc<Desired>>,
    pub health: Arc<Health>,
    /// Becomes true when the kubelet must stop.
    pub stopped: watch::Receiver<bool>,
}

/// Starts to report to the service manager, if there is one.
pub(super) fn inform(manager: Option<ServiceManager>, state: State, tasks: &mut Tasks) {
    if let Some(manager) = manager {
        tasks.spawn("service manager", state.report(manager));
    }
}

impl State {
    async fn report(mut self, manager: ServiceManager) {
        let mut tick = tokio::time::interval(manager.check_interval());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut engine_answered, mut is_ready) = (None, false);
        let (mut reported, mut stuck_before) = (String::new(), Vec::new());
        loop {
            let status = self.status();
            if *self.engine.borrow() == EngineHealth::Up {
                engine_answered.get_or_insert_with(Instant::now);
            }
            if !is_ready && self.is_started(engine_answered) {
                is_ready = true;
                manager.ready(&status);
            } else if status != reported {
                manager.status(&status);
            }
            reported = status;
            // Without a message systemd restarts the kubelet. An engine that is down is no reason for that.
            let stuck = self.health.stuck();
            if stuck.is_empty() {
                manager.alive();
            } else if stuck != stuck_before {
                tracing::error!(
                    ?stuck,
                    "loops make no progress; the watchdog of the service manager restarts the kubelet"
                );
            }
            stuck_before = stuck;
            tokio::select! {
                _ = tick.tick() => {}
                Ok(()) = self.engine.changed() => {}
                Ok(()) = self.desired.changed() => {}
                Ok(_) = self.stopped.wait_for(|stopped| *stopped) => break,
            }
        }
        manager.stopping();
        // The task does not end before the kubelet.
        std::future::pending::<()>().await;
    }

    /// Whether the start is complete: the engine has answered, and the sources have been read or [`SOURCES_TIMEOUT`] is
    /// over.
    fn is_started(&self, engine_answered: Option<Instant>) -> bool {
        engine_answered.is_some_and(|since| {
            self.desired.borrow().completeness == Completeness::Complete || since.elapsed() >= SOURCES_TIMEOUT
        })
    }

    /// One line for `systemctl status`.
    fn status(&self) -> String {
        let desired = self.desired.borrow();
        let count = desired.pods.len();
        let pods = format!("{count} {}", if count == 1 { "pod" } else { "pods" });
        match &*self.engine.borrow() {
            EngineHealth::Unknown => "waits for the container engine".to_owned(),
            EngineHealth::Down { message, .. } => message.clone(),
            EngineHealth::Up if desired.completeness == Completeness::Incomplete => {
                format!("runs {pods}, and waits for a source of pods")
            }
            EngineHealth::Up => format!("runs {pods}"),
        }
    }
}

#[cfg(test)]
mod tests;
