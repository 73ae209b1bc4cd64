//! What a worker tells of its pod: the status when it has changed, and events for waits and failures.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::apply::Fault;
use super::create;
use super::run::Worker;
use crate::observed::probes::Verdicts;
use crate::observed::{self, Timestamp};
use crate::plan::{self, Key, Plan, Waiting};
use crate::report::{About, Report, Severity};

/// What was told last.
#[derive(Default)]
pub(super) struct Told {
    /// The status; that of an earlier kubelet at first.
    pub status: Option<Arc<PodStatus>>,
    /// For which version of the pod this kubelet told it, and whether the pod was ending.
    of: Option<(Arc<Pod>, bool)>,
    /// Back-offs told as events: container and attempt.
    back_offs: BTreeMap<String, u32>,
    /// Waits after failed pulls told as events: container, and when it is tried again.
    pulls: BTreeMap<String, Timestamp>,
    /// Why the record could not be written, until it can.
    pub unsaved: Option<io::ErrorKind>,
}

impl Told {
    /// What an earlier kubelet told.
    pub fn before(status: Option<Arc<PodStatus>>) -> Self {
        Self { status, ..Self::default() }
    }
}

impl Worker {
    /// Publishes the status when it has changed, and events for new back-offs.
    pub(super) fn tell(
        &mut self,
        plan: &Plan,
        observed: &observed::Pod,
        verdicts: &Verdicts,
        now: Timestamp,
    ) {
        self.tell_status(plan, observed, verdicts, now);
        for waiting in &plan.waiting_on {
            if let Waiting::Retry(key) = waiting {
                self.tell_pull(key, now);
            }
            let Waiting::BackOff { container, attempt, delay } = waiting else { continue };
            if self.told.back_offs.insert(container.clone(), *attempt) != Some(*attempt) {
                let message = format!(
                    "Back-off restarting failed container {container} in pod {}: next start in {} s",
                    self.pod().metadata.name.as_deref().unwrap_or_default(),
                    delay.as_secs()
                );
                let about = About::container(self.pod(), container);
                self.tools.outbox.note(about, Severity::Warning, "BackOff", message);
            }
        }
    }

    /// Tells once of each wait after a failed pull.
    fn tell_pull(&mut self, key: &Key, now: Timestamp) {
        let (Some(name), Some(failure)) = (key.container(), self.history.failures.get(key)) else { return };
        if failure.is_back_off(now) && self.told.pulls.get(name) != Some(&failure.retry_at) {
            let container = create::find(self.pod(), name);
            let image = container.as_ref().and_then(|c| c.image.as_deref()).unwrap_or_default();
            let about = About::container(self.pod(), name);
            let message = format!("Back-off pulling image \"{image}\"");
            self.tools.outbox.note(about, Severity::Normal, "BackOff", message);
            self.told.pulls.insert(name.to_owned(), failure.retry_at);
        }
    }

    fn tell_status(&mut self, plan: &Plan, observed: &observed::Pod, verdicts: &Verdicts, now: Timestamp) {
        let facts = self.tools.facts.borrow().clone();
        let under_way = self.under_way.keys();
        let input = self.input(observed, verdicts, &under_way, now);
        let before = self.told.status.as_ref().and_then(|status| status.conditions.as_deref());
        let status = plan::status(&input, plan, before.unwrap_or_default(), &facts.host_ips);
        let deletion = self.assignment.ending.as_ref().map(|e| (e.since, e.grace_seconds));
        let pod = self.pod().clone();
        let is_same =
            |(before, ended): &(Arc<Pod>, bool)| Arc::ptr_eq(before, &pod) && *ended == deletion.is_some();
        if self.told.of.as_ref().is_some_and(is_same) && self.told.status.as_deref() == Some(&status) {
            return;
        }
        let phase = |status: Option<&PodStatus>| status.and_then(|status| status.phase.clone());
        let runs_first = phase(Some(&status)).as_deref() == Some("Running")
            && phase(self.told.status.as_deref()).is_none_or(|before| before == "Pending");
        if let Some(from) = self.history.started_at.filter(|_| runs_first) {
            self.tools.metrics.pod_started(now.duration_since(from).as_secs_f64());
        }
        let status = Arc::new(status);
        self.told.of = Some((pod.clone(), deletion.is_some()));
        self.told.status = Some(status.clone());
        self.tools.outbox.report(self.uid.clone(), Report::Status { pod, status, deletion });
    }

    /// Says that the engine keeps silent about the pod, beside what was known of it.
    pub(super) fn tell_silence(&self, message: &str) {
        let status = PodStatus {
            phase: Some("Unknown".to_owned()),
            reason: Some("EngineUnreachable".to_owned()),
            message: Some(message.to_owned()),
            start_time: self.history.started_at.map(Time),
            ..self.told.status.as_deref().cloned().unwrap_or_default()
        };
        let report = Report::Status { pod: self.pod().clone(), status: Arc::new(status), deletion: None };
        self.tools.outbox.report(self.uid.clone(), report);
    }

    /// Tells why something could not be done.
    pub(super) fn tell_fault(&self, key: &Key, fault: &Fault) {
        let about = match key.container() {
            Some(name) => About::container(self.pod(), name),
            None => About::pod(self.pod()),
        };
        let message = match key {
            Key::Successor(_) => {
                format!("The edit waits, what ran before goes on: {}", fault.message)
            }
            Key::Volumes | Key::Sandbox | Key::Container(_) | Key::Remains(_) => fault.message.clone(),
        };
        self.tools.outbox.note(about, Severity::Warning, fault.event, message);
    }

    /// Tells once of each cause that the pod's record cannot be written.
    pub(super) fn tell_unsaved(&mut self, error: &io::Error) {
        let message = format!(
            "Cannot write the pod's record, a restarted kubelet will know less of it: {error}; free space under the kubelet's root directory"
        );
        tracing::warn!(pod = %self.uid, %error, "cannot write the record of a pod; a restarted kubelet will know less of it");
        if self.told.unsaved.as_ref() != Some(&error.kind()) {
            self.told.unsaved = Some(error.kind());
            self.tools.outbox.note(About::pod(self.pod()), Severity::Warning, "FailedRecord", message);
        }
    }
}
