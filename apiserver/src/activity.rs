//! Tracks activity, for idle timeouts.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Time of the last activity. Clones share it.
#[derive(Clone, Debug)]
pub struct Activity(Arc<watch::Sender<Instant>>);

impl Activity {
    /// Creates a tracker whose last activity is now.
    #[must_use]
    pub fn begin() -> Self {
        Self(Arc::new(watch::Sender::new(Instant::now())))
    }

    /// Records activity.
    pub fn touch(&self) {
        self.0.send_replace(Instant::now());
    }

    /// Waits until there has been no activity for `limit`.
    pub async fn idle_for(&self, limit: Duration) {
        loop {
            let due = *self.0.borrow() + limit;
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }
}
