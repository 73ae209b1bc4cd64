//! The task of one probe on one container: wait, attempt, count, decide.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::check::{Check, Outcome};
use super::schedule::Schedule;
use crate::metrics::ProbeCounters;
use crate::observed::Timestamp;
use crate::observed::probes::{Kind, ProbeResult};
use crate::report::{About, Severity};

/// First interval between early network attempts, which are cheap.
const EARLY_GAP: Duration = Duration::from_millis(100);
/// First interval between early exec attempts. They are more expensive, because the engine starts a process.
const EARLY_EXEC_GAP: Duration = Duration::from_millis(500);
/// Attempts start at multiples of this interval, so that attempts for many pods wake an idle node together.
const GRAIN: Duration = Duration::from_millis(50);

/// Parameters of a probe, with the defaults of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub initial_delay: Duration,
    pub period: Duration,
    pub timeout: Duration,
    pub thresholds: Thresholds,
}

impl Settings {
    pub fn of(probe: &Probe) -> Self {
        let positive = |value: Option<i32>, default: u32| {
            value.and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0).unwrap_or(default)
        };
        let seconds = |value, default| Duration::from_secs(positive(value, default).into());
        Self {
            initial_delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10),
            timeout: seconds(probe.timeout_seconds, 1),
            thresholds: Thresholds {
                success: positive(probe.success_threshold, 1),
                failure: positive(probe.failure_threshold, 3),
            },
        }
    }
}

/// One probe on one container.
pub(super) struct ProbeWorker {
    pub shared: Arc<Shared>,
    pub kind: Kind,
    pub container_id: String,
    pub probe_metrics: ProbeCounters,
    pub about: About,
    pub check: Check,
    pub settings: Settings,
    pub started_at: Timestamp,
    /// Whether the container ran before this kubelet started. First attempts are then spread over a period.
    pub adopted: bool,
    /// Whether the startup probe has succeeded. That probe sets it, and the other probes wait for it.
    pub started: watch::Sender<bool>,
}

impl ProbeWorker {
    /// Runs the probe until its result is final, or until it is dropped.
    pub async fn run(self) {
        let since = Instant::now();
        let age_then =
            Duration::try_from(Timestamp::now().duration_since(self.started_at)).unwrap_or_default();
        let age = || age_then + since.elapsed();

        let waited = self.kind != Kind::Startup && !*self.started.borrow();
        if waited && self.started.subscribe().wait_for(|started| *started).await.is_err() {
            return;
        }
        let mut schedule = self.schedule(age(), waited);
        let mut run = Run::default();
        let mut last_error = String::new();
        let mut healthy = false;
        loop {
            let attempt = schedule.next();
            let at = since + attempt.at.saturating_sub(age_then);
            sleep_until(if attempt.counts { aligned(at) } else { at }).await;
            let outcome =
                self.check.run(&*self.shared.runtime, &self.container_id, self.settings.timeout).await;
            let (success, counter) = match &outcome {
                Outcome::Success | Outcome::Warning(_) => (Some(true), &self.probe_metrics.successful),
                Outcome::Failure(_) => (Some(false), &self.probe_metrics.failed),
                Outcome::Unknown(_) => (None, &self.probe_metrics.unknown),
            };
            counter.inc();
            schedule.record(attempt, age(), success == Some(true));
            if !attempt.counts && success != Some(true) {
                continue;
            }
            self.record_event(&outcome, &mut last_error);
            let Some(success) = success else { continue };
            match run.count(success, self.settings.thresholds) {
                None => {}
                Some(true) if healthy => {}
                Some(probe_result) => {
                    healthy = probe_result;
                    if self.decide(probe_result, outcome) {
                        return;
                    }
                }
            }
        }
    }

    /// The schedule for a container of this age. `waited` is true if the startup probe delayed it.
    fn schedule(&self, age: Duration, waited: bool) -> Schedule {
        let Settings { initial_delay, period, .. } = self.settings;
        if waited {
            Schedule::from(age.max(initial_delay), period)
        } else if self.adopted {
            let first = age + period.mul_f64(self.share());
            Schedule::from(first.max(initial_delay), period)
        } else if !initial_delay.is_zero() {
            Schedule::from(age.max(initial_delay), period)
        } else if age >= period {
            Schedule::from(age, period)
        } else if self.kind == Kind::Liveness {
            Schedule::periodic(period)
        } else {
            let gap = if self.check.is_exec() { EARLY_EXEC_GAP } else { EARLY_GAP };
            Schedule::with_early_attempts(period, gap)
        }
    }

    /// The phase of this probe within a period, from 0 to 1. It is derived from container and type, so that probes of many
    /// containers are spread.
    fn share(&self) -> f64 {
        let mut hasher = DefaultHasher::new();
        (&self.container_id, self.kind).hash(&mut hasher);
        f64::from(u32::try_from(hasher.finish() >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }

    /// Stores the result. Returns true if it is final for this run of the container.
    fn decide(&self, success: bool, outcome: Outcome) -> bool {
        let message = match outcome {
            Outcome::Success | Outcome::Warning(_) => String::new(),
            Outcome::Failure(message) | Outcome::Unknown(message) => message,
        };
        let probe_result = ProbeResult { success, since: Timestamp::now(), message };
        self.shared.decide(&self.container_id, self.kind, probe_result);
        match self.kind {
            Kind::Startup => {
                if success {
                    self.started.send_replace(true);
                }
                true
            }
            Kind::Liveness => !success,
            Kind::Readiness => false,
        }
    }

    /// Records an event, in the words of the stock kubelet. An unknown outcome is reported once until it changes,
    /// so that a failed engine does not cause many events.
    fn record_event(&self, outcome: &Outcome, last_error: &mut String) {
        let kind = super::name(self.kind);
        let (reason, message) = match outcome {
            Outcome::Success => return last_error.clear(),
            Outcome::Warning(output) => ("ProbeWarning", format!("{kind} probe warning: {output}")),
            Outcome::Failure(output) => ("Unhealthy", format!("{kind} probe failed: {output}")),
            Outcome::Unknown(output) if output == last_error => return,
            Outcome::Unknown(output) => {
                output.clone_into(last_error);
                ("Unhealthy", format!("{kind} probe errored and resulted in unknown state: {output}"))
            }
        };
        self.shared.outbox.note(self.about.clone(), Severity::Warning, reason, message);
    }
}

/// The next multiple of [`GRAIN`] at or after this instant.
fn aligned(at: Instant) -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    let into = at.saturating_duration_since(origin).as_nanos() % GRAIN.as_nanos();
    let rest = GRAIN.saturating_sub(Duration::from_nanos(u64::try_from(into).unwrap_or_default()));
    if into == 0 { at } else { at + rest }
}

/// Number of consecutive results that decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thresholds {
    /// The field `successThreshold`.
    pub success: u32,
    /// The field `failureThreshold`.
    pub failure: u32,
}

/// The last result, and how often it occurred consecutively.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    last: Option<bool>,
    length: u32,
}

impl Run {
    /// Counts a result. Returns it when its threshold is reached, and at each further repetition.
    pub fn count(&mut self, success: bool, thresholds: Thresholds) -> Option<bool> {
        if self.last == Some(success) {
            self.length = self.length.saturating_add(1);
        } else {
            *self = Self { last: Some(success), length: 1 };
        }
        let needed = if success { thresholds.success } else { thresholds.failure };
        (self.length >= needed).then_some(success)
    }
}
