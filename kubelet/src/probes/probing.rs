//! The life of one probe on one container: wait, look, count, decide.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Shared;
use super::check::{Check, Outcome};
use super::pace::Pace;
use super::thresholds::{Run, Thresholds};
use crate::metrics::ProbeCounters;
use crate::observed::Timestamp;
use crate::observed::probes::{Kind, Verdict};
use crate::report::{About, Severity};

/// The first gap between early looks over the network, which cost next to nothing.
const EARLY_GAP: Duration = Duration::from_millis(100);
/// The same for commands, each of which the engine has to start.
const EARLY_EXEC_GAP: Duration = Duration::from_millis(500);
/// Looks wait for the end of a grain, so that those of many pods wake the node together: on a node that is otherwise
/// idle, waking up costs as much as looking.
const GRAIN: Duration = Duration::from_millis(50);

/// The numbers of a probe; the API server's defaults where the manifest leaves them open.
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
pub(super) struct Probing {
    pub shared: Arc<Shared>,
    pub kind: Kind,
    pub container_id: String,
    /// Where its looks are counted.
    pub counted: ProbeCounters,
    pub about: About,
    pub check: Check,
    pub settings: Settings,
    pub started_at: Timestamp,
    /// The container was there before this kubelet: first looks are spread over a period.
    pub adopted: bool,
    /// The startup probe sets it; the others wait for it.
    pub started: watch::Sender<bool>,
}

impl Probing {
    /// Probes until nothing is left to find out, or until dropped.
    pub async fn run(self) {
        let since = Instant::now();
        let age_then =
            Duration::try_from(Timestamp::now().duration_since(self.started_at)).unwrap_or_default();
        let age = || age_then + since.elapsed();

        let waited = self.kind != Kind::Startup && !*self.started.borrow();
        if waited && self.started.subscribe().wait_for(|started| *started).await.is_err() {
            return;
        }
        let mut pace = self.pace(age(), waited);
        let mut run = Run::default();
        let mut complaint = String::new();
        let mut healthy = false;
        loop {
            let look = pace.next();
            let at = since + look.at.saturating_sub(age_then);
            sleep_until(if look.counts { aligned(at) } else { at }).await;
            let outcome =
                self.check.run(&*self.shared.runtime, &self.container_id, self.settings.timeout).await;
            let (success, counter) = match &outcome {
                Outcome::Success | Outcome::Warning(_) => (Some(true), &self.counted.successful),
                Outcome::Failure(_) => (Some(false), &self.counted.failed),
                Outcome::Unknown(_) => (None, &self.counted.unknown),
            };
            counter.inc();
            pace.looked(look, age(), success == Some(true));
            if !look.counts && success != Some(true) {
                continue;
            }
            self.tell(&outcome, &mut complaint);
            let Some(success) = success else { continue };
            match run.count(success, self.settings.thresholds) {
                None => {}
                Some(true) if healthy => {}
                Some(verdict) => {
                    healthy = verdict;
                    if self.decide(verdict, outcome) {
                        return;
                    }
                }
            }
        }
    }

    /// When to look, for a container of that age whose startup probe was waited for or not.
    fn pace(&self, age: Duration, waited: bool) -> Pace {
        let Settings { initial_delay, period, .. } = self.settings;
        if waited {
            Pace::from(age.max(initial_delay), period)
        } else if self.adopted {
            let first = age + period.mul_f64(self.share());
            Pace::from(first.max(initial_delay), period)
        } else if !initial_delay.is_zero() {
            Pace::from(age.max(initial_delay), period)
        } else if age >= period {
            Pace::from(age, period)
        } else if self.kind == Kind::Liveness {
            Pace::patient(period)
        } else {
            let gap = if self.check.is_exec() { EARLY_EXEC_GAP } else { EARLY_GAP };
            Pace::eager(period, gap)
        }
    }

    /// This probe's share of a period, from 0 to 1 and the same each time: probes of many containers spread out.
    fn share(&self) -> f64 {
        let mut hasher = DefaultHasher::new();
        (&self.container_id, self.kind).hash(&mut hasher);
        f64::from(u32::try_from(hasher.finish() >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }

    /// Puts the verdict down; true when there is nothing left to find out about this container.
    fn decide(&self, success: bool, outcome: Outcome) -> bool {
        let message = match outcome {
            Outcome::Success | Outcome::Warning(_) => String::new(),
            Outcome::Failure(message) | Outcome::Unknown(message) => message,
        };
        let verdict = Verdict { success, since: Timestamp::now(), message };
        self.shared.decide(&self.container_id, self.kind, verdict);
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

    /// Tells what is worth an event, in the stock kubelet's words. What could not be found out is told once, not
    /// every period: an engine that is away would drown everything else.
    fn tell(&self, outcome: &Outcome, complaint: &mut String) {
        let kind = super::name(self.kind);
        let (reason, message) = match outcome {
            Outcome::Success => return complaint.clear(),
            Outcome::Warning(said) => ("ProbeWarning", format!("{kind} probe warning: {said}")),
            Outcome::Failure(said) => ("Unhealthy", format!("{kind} probe failed: {said}")),
            Outcome::Unknown(said) if said == complaint => return,
            Outcome::Unknown(said) => {
                said.clone_into(complaint);
                ("Unhealthy", format!("{kind} probe errored and resulted in unknown state: {said}"))
            }
        };
        self.shared.outbox.note(self.about.clone(), Severity::Warning, reason, message);
    }
}

/// The end of the [`GRAIN`] of time that holds this instant.
fn aligned(at: Instant) -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    let into = at.saturating_duration_since(origin).as_nanos() % GRAIN.as_nanos();
    let rest = GRAIN.saturating_sub(Duration::from_nanos(u64::try_from(into).unwrap_or_default()));
    if into == 0 { at } else { at + rest }
}
