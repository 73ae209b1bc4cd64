//! Publishes the pod status when it changes, and events for back-offs and errors.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::apply::ActionError;
use super::create;
use super::pod_worker::PodWorker;
use crate::observed::probes::ProbeResults;
use crate::observed::{self, Timestamp};
use crate::plan::{self, Key, Plan, Waiting};
use crate::report::{About, Report, Severity};

/// What was published last.
#[derive(Default)]
pub(super) struct Published {
    /// The status. At first it is that of the checkpoint.
    pub status: Option<Arc<PodStatus>>,
    /// The pod version that the last status describes, and whether the pod was terminating. `None` before the first
    /// status of this process.
    of: Option<(Arc<Pod>, bool)>,
    /// Restart back-offs that were reported: attempt by container.
    back_offs: BTreeMap<String, u32>,
    /// Pull back-offs that were reported: retry time by container.
    pulls: BTreeMap<String, Timestamp>,
    /// The error of the last checkpoint write that was reported. `None` after a successful write.
    pub unsaved: Option<io::ErrorKind>,
}

impl Published {
    /// Creates the state with the status of an earlier kubelet process.
    pub fn before(status: Option<Arc<PodStatus>>) -> Self {
        Self { status, ..Self::default() }
    }
}

impl PodWorker {
    /// Publishes a changed status, and events for new back-offs.
    pub(super) fn publish(
        &mut self,
        plan: &Plan,
        observed: &observed::Pod,
        probe_results: &ProbeResults,
        now: Timestamp,
    ) {
        self.publish_status(plan, observed, probe_results, now);
        for waiting in &plan.waiting_on {
            if let Waiting::Retry(key) = waiting {
                self.report_pull_back_off(key, now);
            }
            let Waiting::BackOff { container, attempt, delay, .. } = waiting else { continue };
            if self.published.back_offs.insert(container.clone(), *attempt) != Some(*attempt) {
                let message = format!(
                    "Back-off restarting failed container {container} in pod {}: next start in {} s",
                    self.pod().metadata.name.as_deref().unwrap_or_default(),
                    delay.as_secs()
                );
                let about = About::container(self.pod(), container);
                self.deps.outbox.note(about, Severity::Warning, "BackOff", message);
            }
        }
    }

    /// Reports containers that the kernel has killed for lack of memory, with the limit that they reached.
    pub(super) fn report_oom_kills(&self, observed: &observed::Pod, now: Timestamp) {
        for killed in self.history.new_oom_kills(observed, now) {
            let name = &killed.name;
            let limits = create::find(self.pod(), name)
                .and_then(|container| container.resources.as_ref()?.limits.clone());
            let limit = limits.and_then(|limits| limits.get("memory").map(|limit| limit.0.clone()));
            let cause = match limit {
                Some(limit) => format!("it reached its memory limit of {limit}"),
                None => "the pod reached its memory limit, or the machine had no memory left".to_owned(),
            };
            let message = format!("The kernel killed container {name}: {cause}");
            self.deps.outbox.note(
                About::container(self.pod(), name),
                Severity::Warning,
                "OOMKilled",
                message,
            );
        }
    }

    /// Reports each pull back-off once.
    fn report_pull_back_off(&mut self, key: &Key, now: Timestamp) {
        let (Some(name), Some(failure)) = (key.container(), self.history.failures.get(key)) else { return };
        if failure.is_back_off(now) && self.published.pulls.get(name) != Some(&failure.retry_at) {
            let container = create::find(self.pod(), name);
            let image = container.as_ref().and_then(|c| c.image.as_deref()).unwrap_or_default();
            let about = About::container(self.pod(), name);
            let message = format!("Back-off pulling image \"{image}\"");
            self.deps.outbox.note(about, Severity::Normal, "BackOff", message);
            self.published.pulls.insert(name.to_owned(), failure.retry_at);
        }
    }

    fn publish_status(
        &mut self,
        plan: &Plan,
        observed: &observed::Pod,
        probe_results: &ProbeResults,
        now: Timestamp,
    ) {
        let facts = self.deps.facts.borrow().clone();
        let in_progress = self.in_progress.keys();
        let input = self.input(observed, probe_results, &in_progress, now);
        let before = self.published.status.as_ref().and_then(|status| status.conditions.as_deref());
        let status = plan::status(&input, plan, before.unwrap_or_default(), &facts.host_ips);
        let deletion = self.assignment.ending.as_ref().map(|e| (e.since, e.grace_seconds));
        let pod = self.pod().clone();
        let is_same =
            |(before, ended): &(Arc<Pod>, bool)| Arc::ptr_eq(before, &pod) && *ended == deletion.is_some();
        if self.published.of.as_ref().is_some_and(is_same)
            && self.published.status.as_deref() == Some(&status)
        {
            return;
        }
        let phase = |status: Option<&PodStatus>| status.and_then(|status| status.phase.clone());
        let runs_first = phase(Some(&status)).as_deref() == Some("Running")
            && phase(self.published.status.as_deref()).is_none_or(|before| before == "Pending");
        if let Some(from) = self.history.started_at.filter(|_| runs_first) {
            self.deps.metrics.pod_started(now.duration_since(from).as_secs_f64());
        }
        let status = Arc::new(status);
        self.published.of = Some((pod.clone(), deletion.is_some()));
        self.published.status = Some(status.clone());
        self.deps.outbox.report(self.uid.clone(), Report::Status { pod, status, deletion });
    }

    /// Reports that the engine does not answer, with the last known status.
    pub(super) fn report_unreachable_engine(&self, message: &str) {
        let status = PodStatus {
            phase: Some("Unknown".to_owned()),
            reason: Some("EngineUnreachable".to_owned()),
            message: Some(message.to_owned()),
            start_time: self.history.started_at.map(Time),
            ..self.published.status.as_deref().cloned().unwrap_or_default()
        };
        let report = Report::Status { pod: self.pod().clone(), status: Arc::new(status), deletion: None };
        self.deps.outbox.report(self.uid.clone(), report);
    }

    /// Reports a failed action as an event.
    pub(super) fn report_failure(&self, key: &Key, fault: &ActionError) {
        let about = match key.container() {
            Some(name) => About::container(self.pod(), name),
            None => About::pod(self.pod()),
        };
        let message = match key {
            Key::Replacement(_) => {
                format!("The edit is pending, the previous version keeps running: {}", fault.message)
            }
            Key::Volumes | Key::Sandbox | Key::Container(_) | Key::Dead(_) => fault.message.clone(),
        };
        self.deps.outbox.note(about, Severity::Warning, fault.event, message);
    }

    /// Reports each kind of checkpoint write error once.
    pub(super) fn report_unsaved_checkpoint(&mut self, error: &io::Error) {
        let message = format!(
            "Cannot save the pod's checkpoint: {error}; free space under the kubelet's root directory"
        );
        if self.published.unsaved.as_ref() != Some(&error.kind()) {
            self.published.unsaved = Some(error.kind());
            self.deps.outbox.note(About::pod(self.pod()), Severity::Warning, "FailedCheckpoint", message);
        }
    }
}
