//! Token manager: requests the service-account tokens of pods, one after the other, and renews them before they expire.

use std::sync::Arc;

use client::backoff::random_share;
use jiff::Timestamp;
use tokio::sync::watch;

use super::Shared;
use super::token_cache::TokenCall;
use crate::cluster::backoff::{Backoff, MAX_WAIT, ignore_request_error, may_be_request_error, time_until};
use crate::identity::{Api, ApiError};
use crate::report::{About, Outbox, Severity};

/// The task that requests tokens.
pub(super) struct TokenManager {
    pub shared: Arc<Shared>,
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    pub outbox: Arc<Outbox>,
}

impl TokenManager {
    /// Requests tokens until the kubelet stops.
    pub async fn run(mut self) {
        let mut changed = self.shared.changed.subscribe();
        let mut backoff = Backoff::new();
        loop {
            changed.borrow_and_update();
            let api = self.apis.borrow_and_update().clone();
            let next = self.shared.lock().reference_cache.tokens.next(Timestamp::now());
            let wait = match (api, next) {
                (Some(api), Ok(request)) => {
                    // Other tasks report that the API server does not answer. Cached tokens stay in use meanwhile.
                    let done = self.fetch_token(&api, &request).await;
                    if backoff.record(done, &mut self.apis).await.is_none() {
                        return;
                    }
                    continue;
                }
                (Some(_), Err(due)) => time_until(due),
                (None, _) => MAX_WAIT,
            };
            tokio::select! {
                changed = self.apis.changed() => if changed.is_err() { return },
                changed = changed.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Requests one token. A refused request is queued again. A returned error concerns the server as a whole.
    async fn fetch_token(&self, api: &Api, request: &TokenCall) -> Result<(), ApiError> {
        let now = Timestamp::now();
        let answered = api.post(&request.path, &request.body).await;
        let reason = match &answered {
            Ok(answer) => {
                let on_issued =
                    self.shared.lock().reference_cache.tokens.on_issued(request, answer, now, random_share());
                on_issued.err().map(|reason| format!("the answer of {} {reason}", api.server()))
            }
            Err(error) if may_be_request_error(error) => Some(error.to_string()),
            Err(_) => return answered.map(drop),
        };
        if let Some(reason) = reason {
            let report =
                self.shared.lock().reference_cache.tokens.refused(&request.key, &reason, now, random_share());
            if let Some(pod) = report {
                let text =
                    format!("cannot get a service-account token for this pod: {reason}; the kubelet retries");
                self.outbox.note(About::pod(&pod), Severity::Warning, "TokenRefused", text);
            }
        }
        self.shared.changed.send_replace(());
        ignore_request_error(answered.map(drop))
    }
}
