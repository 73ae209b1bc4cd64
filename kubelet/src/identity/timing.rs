//! Computes rotation deadlines with jitter, poll intervals and backoff. Pure. `share` is a random number from 0 up
//! to 1.

use std::time::Duration;

use client::backoff::{exponential_delay, jittered};
use jiff::Timestamp;

use super::certificate::Certificate;
use super::error::ApiError;

/// The part of a certificate's lifetime after which it is renewed, as in the stock kubelet. A random part of the
/// jitter is added, so that nodes that joined together do not renew together.
const EARLIEST_ROTATION: f64 = 0.7;
const ROTATION_JITTER: f64 = 0.2;
/// Longest interval between two reads of the cluster info. It is shorter if the lifetime of the certificate
/// requires a minimum number of reads. A node therefore trusts a new CA, and has a certificate of it, long before
/// the old one retires.
const MAX_CLUSTER_INFO_DELAY: Duration = Duration::from_secs(4 * 60 * 60);
const REFRESHES_PER_LIFETIME: u32 = 6;
/// Shortest interval between two reads, even if a certificate has a short lifetime.
const MIN_CLUSTER_INFO_DELAY: Duration = Duration::from_secs(1);
/// Interval after invalid cluster info.
pub const CLUSTER_INFO_RETRY: Duration = Duration::from_secs(10 * 60);
/// First delay after a failure. Each further failure doubles it.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// Longest delay. A master that is available again is therefore found within half a minute.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// First interval between two polls of a CSR. Intervals grow up to a limit, which is how long a user waits after an
/// approval. A thousand waiting nodes send a hundred requests a second.
const INITIAL_POLL: Duration = Duration::from_millis(200);
const MAX_POLL: Duration = Duration::from_secs(10);
/// Longest interval between two polls of a denied CSR. A user deletes such a CSR, or the server does so after an
/// hour.
const MAX_DENIED_POLL: Duration = Duration::from_secs(30);

/// The rotation deadline. The lifetime counts from the time when the node received the certificate, because some
/// certificates are backdated.
pub fn rotation_deadline(certificate: &Certificate, share: f64) -> Timestamp {
    let (from, lifetime) = lifetime(certificate);
    let passed = lifetime.mul_f64(ROTATION_JITTER.mul_add(share.clamp(0.0, 1.0), EARLIEST_ROTATION));
    let passed = i64::try_from(passed.as_secs()).unwrap_or_default();
    Timestamp::from_second(from.saturating_add(passed)).unwrap_or(Timestamp::MIN)
}

/// The start and length of a certificate's lifetime on this node; the start is in seconds since 1970.
fn lifetime(certificate: &Certificate) -> (i64, Duration) {
    let facts = &certificate.facts;
    let from = certificate.since.as_second().clamp(facts.from, facts.until.max(facts.from));
    (from, Duration::from_secs(u64::try_from(facts.until - from).unwrap_or_default()))
}

/// The delay before a retry. It is the backoff, or the server's `Retry-After` (up to `max_retry_after`) if that is
/// longer.
pub fn retry_delay(error: &ApiError, failures: u32, max_retry_after: Duration, share: f64) -> Duration {
    backoff_delay(failures, share).max(error.retry_after().unwrap_or_default().min(max_retry_after))
}

/// The delay before the cluster info is read again.
pub fn cluster_info_delay(certificate: &Certificate, share: f64) -> Duration {
    let (_, lifetime) = lifetime(certificate);
    jittered((lifetime / REFRESHES_PER_LIFETIME).clamp(MIN_CLUSTER_INFO_DELAY, MAX_CLUSTER_INFO_DELAY), share)
}

/// The backoff after `failures` consecutive failures.
pub fn backoff_delay(failures: u32, share: f64) -> Duration {
    exponential_delay(INITIAL_BACKOFF, MAX_BACKOFF, failures, share)
}

/// The delay before a pending CSR is polled again.
pub fn csr_poll_delay(polls: u32, share: f64) -> Duration {
    exponential_delay(INITIAL_POLL, MAX_POLL, polls, share)
}

/// The delay before a denied or failed CSR is polled again.
pub fn denied_csr_poll_delay(polls: u32, share: f64) -> Duration {
    exponential_delay(INITIAL_POLL, MAX_DENIED_POLL, polls, share)
}
