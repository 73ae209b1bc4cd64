//! Says that what is to be looked after cannot be seen, once and again every minute for as long as it is so.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::client::Error;

/// How often it is said: dozens of resources are tried for again and again, and one line is enough for whoever mends it.
const AGAIN: Duration = Duration::from_secs(60);

/// When it was said last. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Complaint(Arc<Mutex<Option<Instant>>>);

impl Complaint {
    /// Tells that a look at something came to nothing, where a person has to do something about it.
    pub fn tell(&self, looked_at: &str, error: &Error) {
        if let Some(cure) = cure(error).filter(|_| self.is_due(Instant::now())) {
            tracing::warn!(looked_at, error = error.whole(), "cannot see what is there: {cure}");
        }
    }

    /// Whether it is time to say it, which then has been said.
    fn is_due(&self, now: Instant) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = told.is_none_or(|told| now.duration_since(told) >= AGAIN);
        if is_due {
            *told = Some(now);
        }
        is_due
    }
}

/// What a person can do; nothing when it passes by itself.
fn cure(error: &Error) -> Option<&'static str> {
    match error {
        Error::Refused { code: 401, .. } => Some(
            "the server does not know the user of the kubeconfig; make a new one with `master kubeconfig`",
        ),
        Error::Refused { code: 403, .. } => Some(
            "the user of the kubeconfig may not; `master kubeconfig --user NAME --group system:masters` makes one for a user who may",
        ),
        Error::Lost(_) => Some(
            "look whether the master runs where the kubeconfig says (`server:`); `master check --kubeconfig FILE` says why not",
        ),
        Error::Webhook { .. } => Some(
            "requests of nodes wait for it; look whether it runs where its kubeconfig says, or decide with `kubectl certificate approve|deny`",
        ),
        Error::Refused { .. } | Error::Unreadable(_) | Error::NoKind { .. } => None,
    }
}
