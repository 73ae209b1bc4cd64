//! Whether a connection is used, so that one that is not goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// How long a connection may be open that nothing is asked over; the stock server's. HTTP/1.1 has its own, shorter one.
const IDLE: Duration = Duration::from_secs(90);

/// What has been asked over a connection.
#[derive(Debug, Default)]
pub(super) struct Busy {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// Something that is asked, until its answer has been sent.
#[derive(Debug)]
pub(super) struct Asked(Arc<Busy>);

impl Busy {
    /// Something is asked.
    pub(super) fn asked(self: &Arc<Self>) -> Asked {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Asked(self.clone())
    }

    /// Waits until nothing was asked or answered for a while; it may be twice as long.
    pub(super) async fn idle(&self) {
        // Looked at from time to time, so that a request costs no more than a count.
        let mut before = u64::MAX;
        loop {
            sleep(IDLE).await;
            let begun = self.begun.load(Ordering::Relaxed);
            if begun == self.ended.load(Ordering::Relaxed) && (begun == before || begun == 0) {
                return;
            }
            before = begun;
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    //! Who asks stays, who has asked goes.

    use tokio::time::{Instant, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_not_used_is_idle() {
        let busy = Arc::new(Busy::default());
        let begun = Instant::now();
        busy.idle().await;
        assert_eq!(begun.elapsed(), IDLE, "nothing was ever asked");
        let watch = busy.asked();
        assert!(timeout(10 * IDLE, busy.idle()).await.is_err(), "somebody watches");
        drop(watch);
        let begun = Instant::now();
        busy.idle().await;
        assert!(begun.elapsed() <= 2 * IDLE);
    }
}
