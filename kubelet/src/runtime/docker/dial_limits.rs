//! Limits concurrent dials per node and per pod. A pod with unresponsive ports then does not block other pods.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::observed::PodUid;

/// Maximum number of threads that dial at once. A dial is immediate if the port is open, and takes up to
/// [`DIAL_TIMEOUT`] if packets are dropped.
const MAX_DIALS: usize = 32;
/// Maximum number of threads that dial ports of one pod. A pod with open ports needs no more.
const MAX_DIALS_PER_POD: usize = 4;
/// How long a dial waits for a permit, and for a local port to accept the connection.
pub(super) const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The semaphores that limit dials.
pub(super) struct DialLimits {
    all: Arc<Semaphore>,
    /// Entries of the pods that have or wait for a permit.
    pods: Mutex<HashMap<PodUid, Weak<Semaphore>>>,
}

/// A permit to dial. It is returned when it is dropped.
pub(super) struct DialPermit {
    _of_all: OwnedSemaphorePermit,
    _of_pod: OwnedSemaphorePermit,
}

impl Default for DialLimits {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(MAX_DIALS)), pods: Mutex::default() }
    }
}

impl DialLimits {
    /// Waits for a permit for the pod, at most for [`DIAL_TIMEOUT`].
    ///
    /// # Errors
    /// If a limit is reached. The error names it, as text for users.
    pub(super) async fn take(&self, pod: &PodUid) -> Result<DialPermit, String> {
        let due = tokio::time::Instant::now() + DIAL_TIMEOUT;
        let turn = async |of: Arc<Semaphore>| {
            let turn = tokio::time::timeout_at(due, of.acquire_owned()).await;
            turn.ok().and_then(Result::<_, AcquireError>::ok)
        };
        let taken = |many: usize, whose: &str| {
            format!(
                "{many} connections to ports of this {whose} are being made, and none was done within {} s; \
                 try again when their ports answer",
                DIAL_TIMEOUT.as_secs()
            )
        };
        // The pod's permit first: waiting for it does not block other pods.
        let of_pod = turn(self.of(pod)).await.ok_or_else(|| taken(MAX_DIALS_PER_POD, "pod"))?;
        let of_all = turn(self.all.clone()).await.ok_or_else(|| taken(MAX_DIALS, "node"))?;
        Ok(DialPermit { _of_all: of_all, _of_pod: of_pod })
    }

    fn of(&self, pod: &PodUid) -> Arc<Semaphore> {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.retain(|_, dial_limits| dial_limits.strong_count() > 0);
        if let Some(dial_limits) = pods.get(pod).and_then(Weak::upgrade) {
            return dial_limits;
        }
        let dial_limits = Arc::new(Semaphore::new(MAX_DIALS_PER_POD));
        pods.insert(pod.clone(), Arc::downgrade(&dial_limits));
        dial_limits
    }
}

#[cfg(test)]
mod tests {
    //! Tests of pods with unresponsive ports and other pods.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unresponsive_pod_does_not_use_all_dial_slots() {
        let dial_limits = DialLimits::default();
        let pod = |number: usize| PodUid::new(&format!("u{number}"));
        let mut held = Vec::new();
        for _ in 0..MAX_DIALS_PER_POD {
            held.push(dial_limits.take(&pod(0)).await.unwrap());
        }
        let begun = Instant::now();
        let why = dial_limits.take(&pod(0)).await.err().unwrap();
        assert!(why.starts_with("4 connections to ports of this pod are being made"), "{why}");
        assert_eq!(begun.elapsed(), DIAL_TIMEOUT);

        let begun = Instant::now();
        for number in MAX_DIALS_PER_POD..MAX_DIALS {
            held.push(dial_limits.take(&pod(number / MAX_DIALS_PER_POD)).await.unwrap());
        }
        assert_eq!(begun.elapsed(), Duration::ZERO, "other pods do not wait");
        let why = dial_limits.take(&pod(99)).await.err().unwrap();
        assert!(why.starts_with("32 connections to ports of this node are being made"), "{why}");
        // A returned permit lets the next dial start.
        held.remove(0);
        held.push(dial_limits.take(&pod(0)).await.unwrap());
        drop(held);
        drop(dial_limits.take(&pod(1)).await.unwrap());
        assert_eq!(dial_limits.pods.lock().unwrap().len(), 1, "nothing is kept of pods without any");
    }
}
