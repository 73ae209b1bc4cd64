//! The only place where tests wait: for a condition, until a deadline.

use std::time::{Duration, Instant};

/// Default timeout. A loaded two-core machine runs several tests at once; a pod needs half a second.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Poll interval. It is short compared with the waits, and long compared with the cost of a poll (about 10 ms).
const PAUSE: Duration = Duration::from_millis(50);

/// Polls until the condition holds, or fails at the deadline.
///
/// # Errors
/// If the condition does not hold at the deadline. The error is that of the last poll.
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

/// Sleeps before a test injects a fault. This is the only wait without a condition.
pub async fn moment(after: Duration) {
    tokio::time::sleep(after).await;
}
