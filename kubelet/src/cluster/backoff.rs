//! Backoff policy for requests to the API server, and which errors concern one request instead of the whole server.

use std::sync::Arc;
use std::time::Duration;

use client::backoff::{exponential_delay, random_share};
use jiff::Timestamp;
use tokio::sync::watch;

use super::is_certificate_error;
use crate::identity::{Api, ApiError, retry_delay};

/// Longest wait until something is due. The clock may be set meanwhile, so the due time is checked at least this
/// often.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60);

/// Longest `Retry-After` that the kubelet honours.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// First delay of the backoff for one request that the server rejected.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(120);

/// Exponential backoff between failed requests.
#[derive(Debug)]
pub(super) struct Backoff {
    failures: u32,
    max_retry_after: Duration,
}

impl Backoff {
    /// Creates a backoff without failures, which honours `Retry-After` up to [`MAX_RETRY_AFTER`].
    pub fn new() -> Self {
        Self::with_max_retry_after(MAX_RETRY_AFTER)
    }

    /// Creates a backoff that honours `Retry-After` up to `max`.
    pub fn with_max_retry_after(max: Duration) -> Self {
        Self { failures: 0, max_retry_after: max }
    }

    /// Resets the backoff after a successful request.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// The number of consecutive failures.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Records the result of a request and waits if it failed. Returns `None` when the sender of API clients is gone.
    pub async fn record(
        &mut self,
        done: Result<(), ApiError>,
        apis: &mut watch::Receiver<Option<Arc<Api>>>,
    ) -> Option<()> {
        match done {
            Ok(()) => {
                self.reset();
                Some(())
            }
            Err(error) => self.wait(&error, apis).await,
        }
    }

    /// Counts a failure, then waits for the backoff or until the API client changes. Returns `None` when the sender of
    /// API clients is gone.
    pub async fn wait(
        &mut self,
        error: &ApiError,
        apis: &mut watch::Receiver<Option<Arc<Api>>>,
    ) -> Option<()> {
        let pause = retry_delay(error, self.failures, self.max_retry_after, random_share());
        self.failures = self.failures.saturating_add(1);
        tokio::select! {
            changed = apis.changed() => changed.ok(),
            () = tokio::time::sleep(pause) => Some(()),
        }
    }
}

/// Whether the error concerns only this request. The server would answer it in the same way again, and other
/// requests may succeed.
pub(super) fn is_request_error(error: &ApiError) -> bool {
    !is_certificate_error(error)
        && matches!(error, ApiError::Rejected { code: 400 | 403 | 404 | 405 | 409 | 413 | 415 | 422, .. })
}

/// Drops an error that concerns only one request. The caller must have queued the request again.
pub(super) fn ignore_request_error(done: Result<(), ApiError>) -> Result<(), ApiError> {
    done.or_else(|error| if is_request_error(&error) { Ok(()) } else { Err(error) })
}

/// Whether a server answered. The error may then concern only this request, and other requests should not wait for
/// it.
pub(super) fn may_be_request_error(error: &ApiError) -> bool {
    match error {
        ApiError::Rejected { code, .. } => *code != 429 && !is_certificate_error(error),
        ApiError::TooLarge { .. } | ApiError::Invalid { .. } => true,
        ApiError::Unreachable { .. }
        | ApiError::PinMismatch { .. }
        | ApiError::OtherCluster { .. }
        | ApiError::ClockSkew { .. }
        | ApiError::NameMismatch { .. }
        | ApiError::NotMaster { .. }
        | ApiError::KubeconfigMissing { .. } => false,
    }
}

/// The time until `due`, at most [`MAX_WAIT`].
pub(super) fn time_until(due: Option<Timestamp>) -> Duration {
    let Some(due) = due else { return MAX_WAIT };
    Duration::try_from(due.duration_since(Timestamp::now())).unwrap_or_default().min(MAX_WAIT)
}

/// Counts a rejection, and returns the time of the next retry. `share` is random, from 0 up to 1.
pub(super) fn next_retry(now: Timestamp, refusals: &mut u32, share: f64) -> Timestamp {
    let pause = exponential_delay(INITIAL_BACKOFF, MAX_BACKOFF, *refusals, share);
    *refusals = refusals.saturating_add(1);
    now.checked_add(pause).unwrap_or(Timestamp::MAX)
}
