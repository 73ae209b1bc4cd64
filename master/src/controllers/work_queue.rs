//! The work queue of a controller, the [`Controller`] trait, and the worker loop.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use client::Error;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::informers::{Change, EventHandler};
use super::rate_limited_queue::{Action, RateLimitedQueue};

/// A controller. It reconciles one key of its work queue at a time.
#[async_trait]
pub trait Controller: Send + Sync + 'static {
    /// The name in `--controllers` and in the log.
    fn name(&self) -> &'static str;

    /// The number of concurrent workers.
    fn workers(&self) -> usize {
        1
    }

    /// Handles a change: adds the keys that it affects to the queue.
    fn on_change(&self, change: &Change, queue: &WorkQueue);

    /// Observes something that is no API object, and adds the keys that it affects. By default there is nothing to
    /// observe.
    async fn observe(&self, _queue: &WorkQueue) {}

    /// Reconciles one key.
    ///
    /// # Errors
    /// If the reconciliation fails. The key is then retried with backoff.
    async fn reconcile(&self, key: &str, queue: &WorkQueue) -> Result<Action, Error>;
}

/// A work queue that handlers and workers share.
#[derive(Debug, Default)]
pub struct WorkQueue {
    state: Mutex<RateLimitedQueue>,
    wake: Notify,
}

impl WorkQueue {
    /// Adds a key that is due now.
    pub fn add(&self, key: &str) {
        self.add_in(key, Duration::ZERO);
    }

    /// Adds a key that is due after `pause`, unless it is already due earlier.
    pub fn add_in(&self, key: &str, pause: Duration) {
        self.lock().add(key, Instant::now() + pause);
        self.wake.notify_one();
    }

    async fn next(&self) -> String {
        loop {
            let taken = self.lock().take(Instant::now());
            match taken {
                Ok(key) => {
                    // Another key may be due for another worker.
                    self.wake.notify_one();
                    return key;
                }
                Err(None) => self.wake.notified().await,
                Err(Some(at)) => {
                    let _ = tokio::time::timeout_at(at, self.wake.notified()).await;
                }
            }
        }
    }

    fn done(&self, key: &str, next: Action) {
        self.lock().done(key, next, Instant::now());
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, RateLimitedQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A controller with its work queue.
pub(super) struct Registered {
    pub controller: Arc<dyn Controller>,
    pub queue: Arc<WorkQueue>,
}

impl EventHandler for Registered {
    fn on_change(&self, change: &Change) {
        self.controller.on_change(change, &self.queue);
    }
}

/// Runs one worker of a controller until the future is dropped.
pub(super) async fn run_worker(controller: Arc<dyn Controller>, queue: Arc<WorkQueue>) {
    loop {
        let key = queue.next().await;
        let next = controller.reconcile(&key, &queue).await.unwrap_or_else(|error| {
            let controller = controller.name();
            if error.is_conflict() {
                tracing::debug!(controller, key, %error, "write conflict; retrying");
            } else {
                let error = error.full_message();
                tracing::warn!(controller, key, error, "reconciliation failed; retrying");
            }
            Action::Retry
        });
        queue.done(&key, next);
    }
}
