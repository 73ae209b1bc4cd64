//! Logs problems that need an administrator, at most once a minute. Examples are missing permissions and objects
//! that cannot be decoded.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use client::Error;
use tokio::time::Instant;

/// Minimum interval between two reports. Dozens of resources are retried at once, and one line is enough.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// A rate-limited reporter. Clones share the limit.
#[derive(Clone, Debug, Default)]
pub struct ProblemReporter(Arc<Mutex<Option<Instant>>>);

impl ProblemReporter {
    /// Logs that a request about `resource` failed, if an administrator can fix the cause.
    pub fn report(&self, resource: &str, error: &Error) {
        if let Some(remedy) = remedy(error).filter(|_| self.is_due(Instant::now())) {
            tracing::warn!(
                resource,
                error = error.full_message(),
                "cannot read from the API server: {remedy}"
            );
        }
    }

    /// Whether a report is due. If it is, the interval starts again.
    fn is_due(&self, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = told.is_none_or(|told| now.duration_since(told) >= REPORT_INTERVAL);
        if is_due {
            *told = Some(now);
        }
        is_due
    }
}

/// Returns what an administrator can do, or `None` if the error is transient.
fn remedy(error: &Error) -> Option<&'static str> {
    match error {
        Error::Refused { code: 401, .. } => Some(
            "the server does not know the user of the kubeconfig; make a new one with `master kubeconfig`",
        ),
        Error::Refused { code: 403, .. } => Some(
            "the user of the kubeconfig may not; `master kubeconfig --user NAME --group system:masters` makes one for a user who may",
        ),
        Error::Lost { .. } => Some(
            "look whether the master runs where the kubeconfig says (`server:`); `master check --kubeconfig FILE` says why not",
        ),
        Error::Webhook { .. } => Some(
            "requests of nodes wait for it; look whether it runs where its kubeconfig says, or decide with `kubectl certificate approve|deny`",
        ),
        Error::TooLarge { .. } => Some(
            "one object is larger than controllers read; find it with `kubectl get --chunk-size=1` and delete or shrink it",
        ),
        Error::Refused { .. } | Error::Unreadable { .. } | Error::NoKind { .. } => None,
    }
}
