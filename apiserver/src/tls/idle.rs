//! Closes idle HTTP/2 connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// How long an HTTP/2 connection may be idle, as in kube-apiserver. HTTP/1.1 has a shorter timeout.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// Counts requests on a connection.
#[derive(Debug, Default)]
pub struct IdleTracker {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A request in flight. It is dropped with its response body.
#[derive(Debug)]
pub struct InFlight(Arc<IdleTracker>);

impl IdleTracker {
    /// Starts a request.
    pub fn begin(self: &Arc<Self>) -> InFlight {
        self.begun.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    /// Waits until the connection has been idle for [`IDLE_TIMEOUT`]. It may return up to twice as late.
    pub async fn idle(&self) {
        // Polling keeps the cost per request to one counter.
        let mut before = u64::MAX;
        loop {
            sleep(IDLE_TIMEOUT).await;
            let begun = self.begun.load(Ordering::Relaxed);
            if begun == self.ended.load(Ordering::Relaxed) && (begun == before || begun == 0) {
                return;
            }
            before = begun;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    //! Tests of idle and busy connections.

    use tokio::time::{Instant, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connection_without_requests_is_idle() {
        let requests = Arc::new(IdleTracker::default());
        let begun = Instant::now();
        requests.idle().await;
        assert_eq!(begun.elapsed(), IDLE_TIMEOUT, "no request was ever made");
        let watch = requests.begin();
        assert!(timeout(10 * IDLE_TIMEOUT, requests.idle()).await.is_err(), "a watch is open");
        drop(watch);
        let begun = Instant::now();
        requests.idle().await;
        assert!(begun.elapsed() <= 2 * IDLE_TIMEOUT);
    }
}
