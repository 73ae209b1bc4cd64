//! Status manager: writes the latest status of each pod to the API server, and deletes terminating pods once nothing of
//! them is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::server_pod::is_terminal;
use super::{Shared, status};
use crate::cluster::backoff::{Backoff, is_request_error};
use crate::cluster::is_certificate_error;
use crate::identity::{Api, ApiError, EventReporter};
use crate::observed::PodUid;
use crate::report::{Latest, Reports};

/// The task that writes pod statuses.
pub(super) struct StatusManager {
    pub shared: Arc<Shared>,
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    pub reports: Arc<Reports>,
    pub reporter: EventReporter,
    /// The latest report of each pod of this node.
    pub latest: BTreeMap<PodUid, Latest>,
    /// Pods that may need a write.
    pub due: BTreeSet<PodUid>,
    /// The last write of each pod and kind, sent or rejected, with the version that the pod had then. It is not
    /// repeated before the version changes or a new list is confirmed.
    pub attempted: BTreeMap<(PodUid, WriteKind), (Value, Option<u64>)>,
    /// The number of confirmed lists when `attempted` was last cleared.
    pub lists_confirmed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WriteKind {
    Status,
    Delete,
}

/// A write to the API server.
#[derive(Debug)]
enum Write {
    /// A status patch: its path and body.
    Status(String, Value),
    /// A deletion: its path and delete options.
    Delete(String, Value),
}

impl StatusManager {
    /// Writes statuses until the kubelet stops.
    pub async fn run(mut self) {
        let mut changed = self.shared.changed.subscribe();
        let mut backoff = Backoff::new();
        loop {
            self.collect();
            let api = self.apis.borrow_and_update().clone();
            let next = self.due.first().cloned();
            if let (Some(api), Some(uid)) = (api, next) {
                match self.sync_pod(&api, &uid).await {
                    Ok(()) => {
                        backoff.reset();
                        continue;
                    }
                    Err(error) => {
                        self.report_error(&error, backoff.failures());
                        if backoff.wait(&error, &mut self.apis).await.is_none() {
                            return;
                        }
                        continue;
                    }
                }
            }
            tokio::select! {
                () = self.reports.arrived() => {}
                _ = changed.changed() => {}
                changed = self.apis.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Collects new reports and changed pods.
    fn collect(&mut self) {
        for (uid, newer) in self.reports.take() {
            self.latest.entry(uid.clone()).or_default().merge(newer);
            self.due.insert(uid);
        }
        let mut state = self.shared.lock();
        self.due.append(&mut state.dirty);
        if self.lists_confirmed != state.pod_store.lists_confirmed() {
            self.lists_confirmed = state.pod_store.lists_confirmed();
            self.attempted.clear();
            self.due.extend(self.latest.keys().cloned());
        }
        // The mirror pod of a terminating static pod stays until nothing of that pod is left.
        let is_gone = |uid: &PodUid| self.latest.get(uid).is_none_or(|latest| latest.is_gone);
        if state.mirror_pods.forget(is_gone) {
            drop(state);
            self.shared.changed.send_replace(());
        }
    }

    /// Carries out all writes of one pod, one after the other.
    async fn sync_pod(&mut self, api: &Api, uid: &PodUid) -> Result<(), ApiError> {
        while let Some(write) = self.next_write(uid) {
            let (answer, kind, sent) = match write {
                Write::Status(path, patch) => {
                    let answer = api.patch(&path, &patch).await;
                    (
                        answer.map(|value| self.shared.lock().pod_store.apply_status_response(value)),
                        WriteKind::Status,
                        patch,
                    )
                }
                Write::Delete(path, options) => {
                    (api.delete(&path, &options).await, WriteKind::Delete, options)
                }
            };
            match answer {
                Ok(()) => {}
                // The pod is gone, was changed by another client, or its name belongs to another pod. The watch will
                // show which.
                Err(error) if error.has_code(404) || error.has_code(409) => break,
                Err(error) if is_request_error(&error) => {
                    let text = format!("the API server rejects the status of a pod: {error}");
                    self.reporter.warn("PodStatusRejected", text, Timestamp::now());
                }
                Err(error) => return Err(error),
            }
            let version = self.version(uid);
            self.attempted.insert((uid.clone(), kind), (sent, version));
        }
        self.due.remove(uid);
        Ok(())
    }

    /// The known version of a pod, or of its mirror pod if it is static.
    fn version(&self, uid: &PodUid) -> Option<u64> {
        let state = self.shared.lock();
        state
            .pod_store
            .server_pod(uid)
            .or_else(|| state.mirror_pods.mirror_of(&state.pod_store, uid))?
            .version
    }

    fn next_write(&mut self, uid: &PodUid) -> Option<Write> {
        let latest = self.latest.get(uid)?.clone();
        let attempted = |kind| self.attempted.get(&(uid.clone(), kind));
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let is_unconfirmed = state.pod_store.is_unconfirmed() || state.pod_store.lists_confirmed() == 0;
        let Some(current) =
            state.pod_store.server_pod(uid).or_else(|| state.mirror_pods.mirror_of(&state.pod_store, uid))
        else {
            if latest.is_gone && !is_unconfirmed {
                self.latest.remove(uid);
                self.attempted.retain(|(of, _), _| of != uid);
                if state.pod_store.remove_if_ended(uid) {
                    drop(guard);
                    self.shared.changed.send_replace(());
                }
            }
            return None;
        };
        let is_mirror = current.mirror.is_some();
        if !current.is_runnable && !is_mirror {
            return None;
        }
        let is_attempted = |kind, body: &Value| {
            attempted(kind).is_some_and(|(sent, version)| sent == body && *version == current.version)
        };
        let path = format!("/api/v1/namespaces/{}/pods/{}", current.name.namespace, current.name.name);
        // A pod that the container engine has not shown yet has no status to write. After a restart, the status of a
        // checkpointed pod may be older than the one on the API server.
        let own = latest.status.as_ref().filter(|own| {
            own.phase.as_deref() != Some("Unknown")
                && !is_outdated(own, &current.status, current.generation())
        });
        if let Some(own) = own {
            let has_run = own.container_statuses.as_ref().is_some_and(|all| !all.is_empty());
            if is_mirror {
                if current.is_terminal() && !is_terminal(own) {
                    let mirror = current.uid.clone();
                    state.mirror_pods.mark_mirror_stale(uid, &mirror);
                    drop(guard);
                    self.shared.changed.send_replace(());
                    return None;
                }
            } else if current.is_terminal() && !latest.is_gone && !(is_terminal(own) && has_run) {
                // Another client set the terminal phase, or the pod was never admitted.
                if state.pod_store.forget(uid) {
                    drop(guard);
                    self.shared.changed.send_replace(());
                }
                return None;
            }
            let patch = status::patch(&current.uid, &current.status, own);
            if let Some(patch) = patch.filter(|patch| !is_attempted(WriteKind::Status, patch)) {
                return Some(Write::Status(format!("{path}/status"), patch));
            }
        }
        let is_going = latest.is_gone && current.is_terminating && !is_mirror;
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid.as_str()}});
        (is_going && !is_attempted(WriteKind::Delete, &options)).then_some(Write::Delete(path, options))
    }

    fn report_error(&mut self, error: &ApiError, failures: u32) {
        // A short outage is not reported.
        if failures == 0 && matches!(error, ApiError::Unreachable { .. }) || is_certificate_error(error) {
            return;
        }
        let text = format!(
            "cannot send pod statuses to the API server: {error}; pods keep running, and the kubelet retries"
        );
        self.reporter.warn("PodStatusesNotSent", text, Timestamp::now());
    }
}

/// Whether `own` describes an older generation of the pod than `current` does. A generation that the pod does not
/// have yet does not count, because any client can write it to the status.
fn is_outdated(own: &PodStatus, current: &PodStatus, generation: Option<i64>) -> bool {
    let reported = current.observed_generation.filter(|reported| Some(*reported) <= generation);
    own.observed_generation.zip(reported).is_some_and(|(own, reported)| own < reported)
}

#[cfg(test)]
mod tests;
