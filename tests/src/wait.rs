//! The one place where a test waits: for a condition, with a deadline.

use std::time::{Duration, Instant};

/// How long anything may take: a busy two-core machine runs several tests at once, and a pod needs half a second.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Between two looks; short against what is waited for, long against what a look costs (about 10 ms).
const PAUSE: Duration = Duration::from_millis(50);

/// Looks until the condition holds; when the time is up, says what the last look saw instead.
///
/// # Errors
/// The last look's account of what it saw.
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

/// Lets time pass until the moment at which a test makes something fail: the one thing that is not a condition.
pub async fn moment(after: Duration) {
    tokio::time::sleep(after).await;
}
