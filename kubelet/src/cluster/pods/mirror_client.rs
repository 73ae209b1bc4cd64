//! Mirror pod client: creates and deletes mirror pods of static pods, one after the other.

use std::sync::Arc;

use client::backoff::random_share;
use jiff::Timestamp;
use tokio::sync::watch;

use super::Shared;
use super::mirror_pods::MirrorAction;
use crate::cluster::backoff::{Backoff, MAX_WAIT, ignore_request_error, may_be_request_error, time_until};
use crate::desired::Desired;
use crate::identity::{Api, ApiError};
use crate::report::{About, Outbox, Severity};

/// The task that writes mirror pods.
pub(super) struct MirrorClient {
    pub node: String,
    pub shared: Arc<Shared>,
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    pub desired: watch::Receiver<Arc<Desired>>,
    pub outbox: Arc<Outbox>,
}

impl MirrorClient {
    /// Writes mirror pods until the kubelet stops.
    pub async fn run(mut self) {
        let mut changed = self.shared.changed.subscribe();
        let mut backoff = Backoff::new();
        self.update_desired();
        loop {
            changed.borrow_and_update();
            let api = self.apis.borrow_and_update().clone();
            let next = {
                let mut state = self.shared.lock();
                let state = &mut *state;
                state.mirror_pods.next(&state.pod_store, &self.node, Timestamp::now())
            };
            let wait = match (api, next) {
                (Some(api), Ok(action)) => {
                    // Other tasks report that the API server does not answer.
                    let done = self.apply(&api, &action).await;
                    if backoff.record(done, &mut self.apis).await.is_none() {
                        return;
                    }
                    continue;
                }
                (Some(_), Err(due)) => time_until(due),
                (None, _) => MAX_WAIT,
            };
            tokio::select! {
                wanted = self.desired.changed() => {
                    if wanted.is_err() {
                        return;
                    }
                    self.update_desired();
                }
                changed = self.apis.changed() => if changed.is_err() { return },
                changed = changed.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn update_desired(&mut self) {
        let desired = self.desired.borrow_and_update().clone();
        self.shared.lock().mirror_pods.set_desired(&desired);
        self.shared.changed.send_replace(());
    }

    /// Carries out one action. A rejected action is queued again. A returned error concerns the server as a whole.
    async fn apply(&self, api: &Api, action: &MirrorAction) -> Result<(), ApiError> {
        let done = match action {
            MirrorAction::Create(_, path, mirror) => api.post(path, mirror).await.map(drop),
            MirrorAction::Delete(_, path, options) => api.delete(path, options).await,
        };
        let now = Timestamp::now();
        let mut state = self.shared.lock();
        let report = match &done {
            Ok(()) => {
                state.mirror_pods.done(action, now);
                None
            }
            Err(error) if may_be_request_error(error) => {
                let why = error.to_string();
                let report =
                    state.mirror_pods.refused(action, &why, error.has_code(409), now, random_share());
                if error.has_code(403) {
                    // The Node that is named as owner may have a new UID, which the next list shows.
                    self.shared.relist.notify_one();
                }
                report.map(|pod| (pod, why))
            }
            Err(_) => return done,
        };
        drop(state);
        if let Some((pod, why)) = report {
            let text =
                format!("cannot create the mirror pod, although the pod runs: {why}; the kubelet retries");
            self.outbox.note(About::pod(&pod), Severity::Warning, "FailedMirrorPod", text);
        }
        ignore_request_error(done)
    }
}
