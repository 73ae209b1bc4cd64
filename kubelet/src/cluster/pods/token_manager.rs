//! Token manager: requests the service-account tokens of pods, one after the other, and renews them before they expire.

use std::sync::Arc;

use client::backoff::random_share;
use jiff::Timestamp;
use tokio::sync::watch;

use super::Shared;
use super::due_calls::{DueCalls, send_due_calls};
use super::token_cache::TokenCall;
use crate::cluster::backoff::{ignore_request_error, may_be_request_error};
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
    pub async fn run(self) {
        send_due_calls(&self, self.apis.clone(), self.shared.changed.subscribe()).await;
    }
}

impl DueCalls for TokenManager {
    type Call = TokenCall;

    fn next(&self, now: Timestamp) -> Result<TokenCall, Option<Timestamp>> {
        self.shared.lock().reference_cache.tokens.next(now)
    }

    /// Requests one token. A refused request is queued again. Cached tokens stay in use meanwhile.
    async fn send(&self, api: &Api, request: &TokenCall) -> Result<(), ApiError> {
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
