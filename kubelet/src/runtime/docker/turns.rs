//! Whose turn it is to connect to a port: so many at once, and of one pod a few of them, so that one whose ports do not answer
//! leaves the rest to the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::observed::PodUid;

/// Threads that connect at once. Where somebody listens each takes no time, and where packets are dropped [`WITHIN`].
const AT_ONCE: usize = 32;
/// Those of one pod: eight that do not answer leave nothing, and nobody needs more where somebody listens.
const OF_A_POD: usize = 4;
/// How long a connection may wait for its turn, and how long a port of the same machine may take to accept it.
pub(super) const WITHIN: Duration = Duration::from_secs(10);

/// Who connects at the moment.
pub(super) struct Turns {
    all: Arc<Semaphore>,
    /// Only of pods that have or wait for one.
    pods: Mutex<HashMap<PodUid, Weak<Semaphore>>>,
}

/// A turn, which is over when it goes.
pub(super) struct Turn {
    _of_all: OwnedSemaphorePermit,
    _of_pod: OwnedSemaphorePermit,
}

impl Default for Turns {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE)), pods: Mutex::default() }
    }
}

impl Turns {
    /// Waits for a turn of that pod, a moment at most.
    ///
    /// # Errors
    /// Whose turns are taken, for people.
    pub(super) async fn take(&self, pod: &PodUid) -> Result<Turn, String> {
        let due = tokio::time::Instant::now() + WITHIN;
        let turn = async |of: Arc<Semaphore>| {
            let turn = tokio::time::timeout_at(due, of.acquire_owned()).await;
            turn.ok().and_then(Result::<_, AcquireError>::ok)
        };
        let taken = |many: usize, whose: &str| {
            format!(
                "{many} connections to ports of this {whose} are being made, and none was done within {} s; \
                 try again when their ports answer",
                WITHIN.as_secs()
            )
        };
        // That of the pod first: who waits for it is in the way of no other pod.
        let of_pod = turn(self.of(pod)).await.ok_or_else(|| taken(OF_A_POD, "pod"))?;
        let of_all = turn(self.all.clone()).await.ok_or_else(|| taken(AT_ONCE, "node"))?;
        Ok(Turn { _of_all: of_all, _of_pod: of_pod })
    }

    fn of(&self, pod: &PodUid) -> Arc<Semaphore> {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.retain(|_, turns| turns.strong_count() > 0);
        if let Some(turns) = pods.get(pod).and_then(Weak::upgrade) {
            return turns;
        }
        let turns = Arc::new(Semaphore::new(OF_A_POD));
        pods.insert(pod.clone(), Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    //! Pods whose ports do not answer, and others.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pod_whose_ports_do_not_answer_leaves_turns_to_others() {
        let turns = Turns::default();
        let pod = |number: usize| PodUid::new(&format!("u{number}"));
        let mut held = Vec::new();
        for _ in 0..OF_A_POD {
            held.push(turns.take(&pod(0)).await.unwrap());
        }
        let begun = Instant::now();
        let why = turns.take(&pod(0)).await.err().unwrap();
        assert!(why.starts_with("4 connections to ports of this pod are being made"), "{why}");
        assert_eq!(begun.elapsed(), WITHIN);

        let begun = Instant::now();
        for number in OF_A_POD..AT_ONCE {
            held.push(turns.take(&pod(number / OF_A_POD)).await.unwrap());
        }
        assert_eq!(begun.elapsed(), Duration::ZERO, "the others wait for nobody");
        let why = turns.take(&pod(99)).await.err().unwrap();
        assert!(why.starts_with("32 connections to ports of this node are being made"), "{why}");
        // Where one is over, the next begins.
        held.remove(0);
        held.push(turns.take(&pod(0)).await.unwrap());
        drop(held);
        drop(turns.take(&pod(1)).await.unwrap());
        assert_eq!(turns.pods.lock().unwrap().len(), 1, "nothing is kept of pods without any");
    }
}
