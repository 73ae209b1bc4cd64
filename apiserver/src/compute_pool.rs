//! Bounded thread pool for long computations: large patches, applies, validations, tables and protobuf answers.
//!
//! Long computations never run on the async threads, which serve health checks, leases and small requests. Each
//! user has one running request and a short queue, so that one user cannot delay all others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::identity::Identity;
use crate::shares::{ShareLimits, Shares};
use crate::status::Status;

/// Limit for concurrent computations. They compete with the async threads for processors.
const MAX_RUNNING: usize = 2;
/// Limit for concurrent computations per user.
const MAX_RUNNING_PER_USER: usize = 1;
/// Limits for queued and running requests. Each request holds a body of up to 3 MiB.
const QUEUE_LIMITS: ShareLimits =
    ShareLimits { all: 128, user: 8, others: 96, what: "large and being computed" };
/// How long a request may be queued before it is rejected with 429.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit for a computation. The request then fails at its next checkpoint, without an effect.
const COMPUTE_TIMEOUT: Duration = Duration::from_secs(20);
/// Combined size of body and object, in bytes, from which a request counts as large. Such a request takes some
/// milliseconds.
pub(crate) const LARGE_BYTES: usize = 128 * 1024;

/// The thread pool.
#[derive(Debug)]
pub(crate) struct ComputePool {
    queue: Arc<Shares>,
    at_work: Arc<Semaphore>,
    users: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// Deadline of a computation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// Returns an error after the deadline.
    ///
    /// # Errors
    /// 504 after the deadline.
    pub(crate) fn check(self) -> Result<(), Status> {
        match self.0 {
            Some(until) if Instant::now() >= until => Err(Status::timed_out()),
            _ => Ok(()),
        }
    }
}

impl ComputePool {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            queue: Shares::new(QUEUE_LIMITS),
            at_work: Arc::new(Semaphore::new(MAX_RUNNING)),
            users: Mutex::default(),
        })
    }

    /// Runs `work` on a blocking thread when it is the user's turn.
    ///
    /// # Errors
    /// 429 if the user's queue is full, or the wait times out.
    pub(crate) async fn run<T: Send + 'static, F: Future<Output = Result<T, Status>>>(
        &self,
        who: &Identity,
        work: impl FnOnce(Deadline) -> F + Send + 'static,
    ) -> Result<T, Status> {
        self.run_in_turn(who, work).await.map(|(done, _)| done)
    }

    /// Does the same as [`Self::run`], and returns a permit. The user's next computation waits until the permit is
    /// dropped.
    ///
    /// # Errors
    /// The same as [`Self::run`].
    pub(crate) async fn run_in_turn<T: Send + 'static, F: Future<Output = Result<T, Status>>>(
        &self,
        who: &Identity,
        work: impl FnOnce(Deadline) -> F + Send + 'static,
    ) -> Result<(T, OwnedSemaphorePermit), Status> {
        let user = who.account();
        let queued = self.queue.take(&Identity {
            user: user.clone(),
            groups: who.groups.clone(),
            ..Identity::default()
        })?;
        let [own, at_work] = timeout(QUEUE_TIMEOUT, self.acquire_turn(user))
            .await
            .map_err(|_| Status::too_many_requests())??;
        on_thread(move || async move {
            let _held = (at_work, queued);
            work(Deadline(Some(Instant::now() + COMPUTE_TIMEOUT))).await.map(|done| (done, own))
        })
        .await?
    }

    /// Runs `work` on a blocking thread when it is the user's turn, however long that takes: it encodes the answer of a
    /// write that has succeeded. The limit of requests in flight bounds the queue.
    ///
    /// # Errors
    /// 504 while the server shuts down.
    pub(crate) async fn finish<T: Send + 'static, F: Future<Output = T>>(
        &self,
        who: &Identity,
        work: impl FnOnce() -> F + Send + 'static,
    ) -> Result<T, Status> {
        let permits = self.acquire_turn(who.account()).await?;
        on_thread(move || async move {
            let _held = permits;
            work().await
        })
        .await
    }

    async fn acquire_turn(&self, user: String) -> Result<[OwnedSemaphorePermit; 2], Status> {
        let own = {
            let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
            match users.get(&user).and_then(Weak::upgrade) {
                Some(own) => own,
                None => {
                    // The map only holds users with queued or running requests.
                    users.retain(|_, own| own.strong_count() > 0);
                    let own = Arc::new(Semaphore::new(MAX_RUNNING_PER_USER));
                    users.insert(user, Arc::downgrade(&own));
                    own
                }
            }
        };
        let closed = |_| Status::timed_out();
        let own = own.acquire_owned().await.map_err(closed)?;
        let at_work = self.at_work.clone().acquire_owned().await.map_err(closed)?;
        Ok([own, at_work])
    }
}

/// Runs `work` on a blocking thread to its end, even if the client has disconnected.
async fn on_thread<T: Send + 'static, F: Future<Output = T>>(
    work: impl FnOnce() -> F + Send + 'static,
) -> Result<T, Status> {
    let handle = Handle::current();
    let running = tokio::task::spawn_blocking(move || handle.block_on(work()));
    running.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        // The server is shutting down.
        Err(_) => Status::timed_out(),
    })
}

#[cfg(test)]
mod tests {
    //! Tests of users with much work, and of the other users.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::sync::watch;

    use super::*;

    fn user(name: &str) -> Identity {
        Identity::authenticated(name, [])
    }

    /// Work that runs until `go` is set.
    fn held(
        pool: &Arc<ComputePool>,
        name: &str,
        go: &watch::Sender<bool>,
    ) -> tokio::task::JoinHandle<Result<(), Status>> {
        let (pool, who, mut go) = (pool.clone(), user(name), go.subscribe());
        tokio::spawn(async move {
            pool.run(&who, move |_| async move {
                let _ = go.wait_for(|go| *go).await;
                Ok(())
            })
            .await
        })
    }

    async fn until(condition: impl Fn() -> bool) {
        let look = async {
            while !condition() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), look).await.unwrap();
    }

    #[tokio::test]
    async fn one_user_cannot_use_the_whole_compute_pool() {
        let (pool, go) = (ComputePool::new(), watch::Sender::new(false));
        let own: Vec<_> = (0..QUEUE_LIMITS.user).map(|_| held(&pool, "jane", &go)).collect();
        until(|| pool.at_work.available_permits() == MAX_RUNNING - MAX_RUNNING_PER_USER).await;
        // The queue holds the user's share; one more is rejected at once.
        until(|| pool.queue.take(&user("jane")).is_err()).await;
        let refused = pool.run(&user("jane"), |_| async { Ok(()) }).await.unwrap_err();
        assert_eq!((refused.code, &refused.details.unwrap()["retryAfterSeconds"]), (429, &1.into()));
        // Another user's work runs meanwhile.
        pool.run(&user("joe"), |_| async { Ok(()) }).await.unwrap();
        go.send_replace(true);
        for one in own {
            one.await.unwrap().unwrap();
        }
        pool.run(&user("jane"), |_| async { Ok(()) }).await.unwrap();
    }

    #[tokio::test]
    async fn earlier_response_delays_only_the_same_user() {
        let (pool, jane) = (ComputePool::new(), user("jane"));
        let ((), turn) = pool.run_in_turn(&jane, |_| async { Ok(()) }).await.unwrap();
        assert_eq!(pool.at_work.available_permits(), MAX_RUNNING);
        let mut next = Box::pin(pool.run(&jane, |_| async { Ok(()) }));
        assert!(timeout(Duration::from_millis(50), &mut next).await.is_err());
        pool.run(&user("joe"), |_| async { Ok(()) }).await.unwrap();
        drop(turn);
        next.await.unwrap();
    }

    #[tokio::test]
    async fn work_of_a_disconnected_client_keeps_its_slot() {
        let (pool, go) = (ComputePool::new(), watch::Sender::new(false));
        let left = held(&pool, "jane", &go);
        until(|| pool.at_work.available_permits() == MAX_RUNNING - 1).await;
        left.abort();
        assert!(left.await.unwrap_err().is_cancelled());
        assert_eq!(pool.at_work.available_permits(), MAX_RUNNING - 1, "its thread computes all the same");
        go.send_replace(true);
        until(|| pool.at_work.available_permits() == MAX_RUNNING).await;
    }

    #[tokio::test(start_paused = true)]
    async fn compute_pool_request_times_out() {
        assert!(Deadline::default().check().is_ok());
        let deadline = Deadline(Some(Instant::now() + COMPUTE_TIMEOUT));
        assert!(deadline.check().is_ok());
        tokio::time::advance(COMPUTE_TIMEOUT).await;
        assert_eq!(deadline.check().unwrap_err().code, 504);
    }
}
