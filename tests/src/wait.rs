//! The only place where a test waits: for a condition, with a deadline.

use std::time::{Duration, Instant};

/// Default timeout. A loaded two-core machine runs several tests at once; a pod needs half a second.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Poll interval: short compared with the waits, long compared with the cost of a poll (about 10 ms).
const PAUSE: Duration = Duration::from_millis(50);

/// Polls until the condition holds, or fails at the deadline.
///
/// # Errors
/// The error of the last poll.
pub async fn wait_until<T>(
    deadline: Duration,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> Result<T, String> {
    let end = Instant::now() + deadline;
    loop {
        match look().await {
            Ok(found) => return Ok(found),
            Err(seen) if Instant::now() >= end => return Err(seen),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Sleeps before a test injects a fault: the only wait without a condition.
pub async fn moment(after: Duration) {
    tokio::time::sleep(after).await;
}
