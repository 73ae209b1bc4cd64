//! Binder: writes scheduling decisions to the API server, several at a time, and reports why other pods are
//! unschedulable.

use std::sync::Arc;

use api::time::seconds;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::SharedState;
use super::claim_binder;
use super::events::{EventKind, EventRecorder, PodEvent, PodRef};
use super::extender::Extenders;
use super::pod::{DISRUPTED, PREEMPTED, Pod};
use super::state::{Decision, Nomination, SCHEDULER_ERROR};
use crate::controllers::{Client, DeleteOptions, Error, Kind};
use crate::objects;

/// Maximum number of concurrent writes. The store can batch so many in one commit, and a slow store delays only
/// this many pods.
const MAX_CONCURRENT_WRITES: usize = 128;

/// Maximum number of attempts to update the PodScheduled condition after write conflicts. After that, the next
/// scheduling attempt writes it.
const MAX_ATTEMPTS: u32 = 3;

/// Executes decisions: bindings, extender calls, status updates and preemption.
#[derive(Clone, Debug)]
pub struct Binder {
    client: Client,
    state: Arc<SharedState>,
    events: EventRecorder,
    extenders: Extenders,
    permits: Arc<Semaphore>,
}

impl Binder {
    /// Reports failed writes to `state`.
    pub fn new(client: Client, state: Arc<SharedState>, events: EventRecorder, extenders: Extenders) -> Self {
        Self { client, state, events, extenders, permits: Arc::new(Semaphore::new(MAX_CONCURRENT_WRITES)) }
    }

    /// Waits for a free write slot. The scheduling loop makes no decision before it holds one.
    pub async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().acquire_owned().await.ok()
    }

    /// Executes a decision. While an extender handles the pod, no write slot is held. The state limits how many
    /// pods extenders handle at once.
    pub async fn execute(self, decision: Decision, permit: Option<OwnedSemaphorePermit>) {
        match decision {
            Decision::AskExtenders { .. } | Decision::AskPreemption { .. } => {
                drop(permit);
                if let Some(decision) = self.call_extenders(decision).await {
                    self.write(decision, None).await;
                }
            }
            Decision::Bind { .. }
            | Decision::BindClaims { .. }
            | Decision::ClaimsFailed { .. }
            | Decision::Unschedulable { .. } => self.write(decision, permit).await,
        }
    }

    /// Calls extenders until the decision can be written. Returns `None` if the pod changed in the meantime.
    async fn call_extenders(&self, mut decision: Decision) -> Option<Decision> {
        loop {
            decision = match decision {
                Decision::AskExtenders { pod, feasible } => {
                    let names = feasible.nodes.clone();
                    let results = self.extenders.filter_and_prioritize(&pod, names).await;
                    self.state.update(|state, now| state.extenders_answered(&pod, feasible, results, now))?
                }
                Decision::AskPreemption { pod, fit_error, offers } => {
                    let offers = self.extenders.process_preemption(&pod, offers).await;
                    self.state.update(|state, now| state.preemption_answered(pod, &fit_error, offers, now))?
                }
                decided => return Some(decided),
            }
        }
    }

    async fn write(&self, decision: Decision, permit: Option<OwnedSemaphorePermit>) {
        match decision {
            Decision::Bind { pod, node } if self.extenders.binds(&pod) => {
                drop(permit);
                let answer = self.extenders.bind(&pod, &node).await;
                self.state.update(|state, _| state.extender_bind_finished());
                let _free = self.acquire().await;
                self.finish_extender_bind(&pod, &node, answer).await;
            }
            Decision::Bind { pod, node } => {
                let _free = self.permit_or_wait(permit).await;
                self.bind(&pod, &node).await;
            }
            Decision::BindClaims { pod, claims } => {
                let _free = self.permit_or_wait(permit).await;
                if let Err(error) = claim_binder::write(&self.client, &claims).await {
                    let error = error.full_message();
                    tracing::debug!(pod = pod.key(), error, "cannot bind the claims of the pod; retrying");
                    self.state.update(|state, now| state.bind_failed(&pod.uid, now));
                    let words = claim_binder::failure(&error);
                    self.report_unschedulable(&pod, (SCHEDULER_ERROR, &words), &Nomination::Unchanged).await;
                }
            }
            Decision::ClaimsFailed { pod, words } => {
                let _free = self.permit_or_wait(permit).await;
                let words = claim_binder::failure(&words);
                self.report_unschedulable(&pod, (SCHEDULER_ERROR, &words), &Nomination::Unchanged).await;
            }
            Decision::Unschedulable { pod, words, reason, nomination } => {
                let _free = self.permit_or_wait(permit).await;
                self.report_unschedulable(&pod, (reason, &words), &nomination).await;
            }
            Decision::AskExtenders { .. } | Decision::AskPreemption { .. } => {}
        }
    }

    async fn permit_or_wait(&self, permit: Option<OwnedSemaphorePermit>) -> Option<OwnedSemaphorePermit> {
        match permit {
            None => self.acquire().await,
            permit => permit,
        }
    }

    async fn finish_extender_bind(&self, pod: &Pod, node: &str, answer: Option<Result<(), String>>) {
        match answer {
            None => self.bind(pod, node).await,
            Some(Ok(())) => self.record_bound(pod, node),
            Some(Err(error)) => {
                tracing::warn!(pod = pod.key(), node, error, "an extender failed to bind the pod; retrying");
                self.state.update(|state, now| state.bind_failed(&pod.uid, now));
                self.report_unschedulable(pod, (SCHEDULER_ERROR, &error), &Nomination::Unchanged).await;
            }
        }
    }

    async fn bind(&self, pod: &Pod, node: &str) {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        });
        match self.client.create_subresource(&Kind::POD, &pod.namespace, &pod.name, "binding", binding).await
        {
            Ok(_) => self.record_bound(pod, node),
            Err(error) => {
                log_bind_error(&error, pod, node);
                self.state.update(|state, now| state.bind_failed(&pod.uid, now));
                if !is_superseded(&error) {
                    self.report_unschedulable(
                        pod,
                        (SCHEDULER_ERROR, &error.full_message()),
                        &Nomination::Unchanged,
                    )
                    .await;
                }
            }
        }
    }

    fn record_bound(&self, pod: &Pod, node: &str) {
        tracing::debug!(pod = pod.key(), node, "bound the pod");
        self.events.record(PodEvent {
            pod: PodRef::of(pod),
            kind: EventKind::Scheduled,
            message: format!("Successfully assigned {} to {node}", pod.key()),
        });
    }

    /// Reports a pod as unschedulable with an event and a PodScheduled condition (reason, message), then applies the
    /// nomination.
    async fn report_unschedulable(&self, pod: &Pod, why: (&str, &str), nomination: &Nomination) {
        let words = why.1;
        self.events.record(PodEvent {
            pod: PodRef::of(pod),
            kind: EventKind::FailedScheduling,
            message: words.to_owned(),
        });
        let node = match nomination {
            Nomination::Unchanged => pod.nominated_node.as_str(),
            Nomination::Cleared => "",
            Nomination::Nominated { node, .. } => node,
        };
        let is_reported = |(reason, message): &(String, String)| (reason.as_str(), message.as_str()) == why;
        if !pod.unschedulable_condition.as_ref().is_some_and(is_reported) || pod.nominated_node != node {
            tracing::debug!(pod = pod.key(), why = words, node, "the pod is unschedulable");
            if let Err(error) = self.update_status(pod, why, node).await
                && !error.is_not_found()
            {
                tracing::debug!(
                    pod = pod.key(),
                    error = error.full_message(),
                    "cannot update the PodScheduled condition of the pod"
                );
            }
        }
        if let Nomination::Nominated { node, victims, superseded } = nomination {
            self.preempt(pod, node, victims, superseded).await;
        }
    }

    /// Clears the nominations that the pod supersedes and deletes the victims.
    async fn preempt(&self, pod: &Pod, node: &str, victims: &[Arc<Pod>], superseded: &[Arc<Pod>]) {
        for other in superseded {
            self.clear_nomination(other).await;
        }
        // Terminating victims are not deleted again.
        for victim in victims.iter().filter(|victim| !victim.spec.is_terminating) {
            if let Err(error) = self.delete_victim(victim, pod).await {
                let (pod_key, victim) = (pod.key(), victim.key());
                tracing::warn!(
                    pod = pod_key,
                    victim,
                    error = error.full_message(),
                    "cannot delete a preemption victim; retrying"
                );
                return self.state.update(|state, now| state.preemption_failed(&pod.uid, now));
            }
            tracing::info!(pod = pod.key(), victim = victim.key(), node, "deleted a preemption victim");
            let message = format!("Preempted by pod {} on node {node}", pod.uid);
            self.events.record(PodEvent { pod: PodRef::of(victim), kind: EventKind::Preempted, message });
        }
    }

    /// Clears `status.nominatedNodeName` of a pod that lost its nomination, unless the pod has changed.
    async fn clear_nomination(&self, other: &Pod) {
        let none = clear_nomination_patch(other);
        let (namespace, name) = (&other.namespace, &other.name);
        if let Err(error) = self.client.patch_subresource(&Kind::POD, namespace, name, "status", none).await
            && !error.is_conflict()
        {
            tracing::debug!(
                pod = other.key(),
                error = error.full_message(),
                "cannot clear the nominated node of the pod"
            );
        }
    }

    async fn delete_victim(&self, victim: &Pod, pod: &Pod) -> Result<(), Error> {
        let condition = json!({
            "type": DISRUPTED, "status": "True", "reason": PREEMPTED,
            "message": format!("{}: preempting to accommodate a higher priority pod", pod.scheduler_name),
            "lastTransitionTime": seconds(Timestamp::now()),
        });
        let (namespace, name) = (&victim.namespace, &victim.name);
        let patch = json!({"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}});
        match self.client.patch_subresource(&Kind::POD, namespace, name, "status", patch).await {
            // The victim is gone, or another pod has its name now.
            Err(error) if error.is_not_found() || error.is_conflict() => return Ok(()),
            other => other?,
        };
        let how = DeleteOptions { uid: Some(&victim.uid), ..DeleteOptions::default() };
        match self.client.delete(&Kind::POD, namespace, name, &how).await {
            Err(error) if error.is_conflict() => Ok(()),
            other => other,
        }
    }

    /// Writes the PodScheduled condition and `status.nominatedNodeName`, unless the pod has been bound or deleted in the
    /// meantime. Retries on conflict.
    async fn update_status(&self, pod: &Pod, why: (&str, &str), nominated_node: &str) -> Result<(), Error> {
        let mut version = pod.resource_version.clone();
        for _ in 0..MAX_ATTEMPTS {
            match self.patch_status(pod, &version, why, nominated_node).await {
                Err(error) if error.is_conflict() => {}
                written => return written,
            }
            let now: Option<objects::Pod> =
                self.client.find_as(&Kind::POD, &pod.namespace, &pod.name).await?;
            let is_pending =
                |now: &objects::Pod| *now.metadata.uid == *pod.uid && now.spec.node_name.is_empty();
            let Some(now) = now.filter(is_pending) else { return Ok(()) };
            version = now.metadata.resource_version.into();
        }
        Ok(())
    }

    async fn patch_status(
        &self,
        pod: &Pod,
        version: &str,
        (reason, words): (&str, &str),
        nominated_node: &str,
    ) -> Result<(), Error> {
        let mut condition =
            json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": words});
        if pod.unschedulable_condition.is_none() {
            condition["lastTransitionTime"] = seconds(Timestamp::now()).into();
        }
        let mut patch =
            json!({"metadata": {"resourceVersion": version}, "status": {"conditions": [condition]}});
        if pod.nominated_node != nominated_node {
            patch["status"]["nominatedNodeName"] =
                if nominated_node.is_empty() { Value::Null } else { nominated_node.into() };
        }
        self.client.patch_subresource(&Kind::POD, &pod.namespace, &pod.name, "status", patch).await.map(drop)
    }
}

/// Returns the status patch that clears the nomination. Its uid and resourceVersion limit it to this version of
/// this pod.
fn clear_nomination_patch(pod: &Pod) -> Value {
    json!({
        "metadata": {"uid": pod.uid, "resourceVersion": pod.resource_version}, "status": {"nominatedNodeName": null},
    })
}

/// Whether the error means that the pod is already bound or no longer exists.
fn is_superseded(error: &Error) -> bool {
    error.is_conflict() || error.is_not_found()
}

fn log_bind_error(error: &Error, pod: &Pod, node: &str) {
    let (pod, error_text) = (pod.key(), error.full_message());
    if is_superseded(error) {
        tracing::debug!(pod, node, error = error_text, "the pod was bound or deleted in the meantime");
    } else {
        tracing::warn!(pod, node, error = error_text, "cannot bind the pod; retrying");
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the written patches.
    use super::*;

    #[test]
    fn nomination_is_cleared_only_at_the_observed_version_of_the_pod() {
        let pod = Pod { uid: "u".to_owned(), resource_version: "7".to_owned(), ..Pod::default() };
        assert_eq!(
            clear_nomination_patch(&pod),
            json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"nominatedNodeName": null}})
        );
    }
}
