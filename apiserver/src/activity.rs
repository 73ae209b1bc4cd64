//! When something moved last, for whoever ends what does not move any more.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The moment at which something moved last; clones share it.
#[derive(Clone, Debug)]
pub struct Activity(Arc<watch::Sender<Instant>>);

impl Activity {
    /// Something that begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self(Arc::new(watch::Sender::new(Instant::now())))
    }

    /// Something moved.
    pub fn moved(&self) {
        self.0.send_replace(Instant::now());
    }

    /// Waits until nothing has moved for so long.
    pub async fn ceased(&self, limit: Duration) {
        loop {
            let due = *self.0.borrow() + limit;
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }
}
