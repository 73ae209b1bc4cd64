//! A queue of keys with delays and rate limits. Each key is queued once, and never processed twice at the same
//! time. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use client::backoff::{NO_JITTER, exponential_delay};
use tokio::time::Instant;

/// Backoff after the first failure of a key. It doubles with each further failure.
///
/// The stock controllers start at 5 ms, which is less than a durable write takes.
const INITIAL_BACKOFF: Duration = Duration::from_millis(20);
/// Maximum backoff of a failing key. The controller retries no later than this after the cause was fixed.
const MAX_BACKOFF: Duration = Duration::from_secs(120);

/// What happens to a key after its reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The key is done until an event adds it again.
    AwaitChange,
    /// The key is due again after this time, or earlier if an event adds it.
    RequeueAfter(Duration),
    /// The reconciliation failed: the key is retried with exponential backoff.
    Retry,
}

/// The queue state. It holds at most one entry per object, so the number of stored objects bounds it.
#[derive(Debug, Default)]
pub struct RateLimitedQueue {
    due: HashMap<String, Instant>,
    order: BTreeSet<(Instant, String)>,
    /// Keys that a worker processes now.
    processing: HashSet<String>,
    failures: HashMap<String, u32>,
}

impl RateLimitedQueue {
    /// Schedules a key, unless it is already due earlier.
    pub fn add(&mut self, key: &str, at: Instant) {
        if let Some(known) = self.due.get(key) {
            if *known <= at {
                return;
            }
            self.order.remove(&(*known, key.to_owned()));
        }
        self.due.insert(key.to_owned(), at);
        // A key in process is ordered when its worker is done.
        if !self.processing.contains(key) {
            self.order.insert((at, key.to_owned()));
        }
    }

    /// Takes the next due key and marks it as in process.
    ///
    /// # Errors
    /// If no key is due. The error is the time at which the next key is due, if any key is queued.
    pub fn take(&mut self, now: Instant) -> Result<String, Option<Instant>> {
        let first = self.order.first().ok_or(None)?;
        if first.0 > now {
            return Err(Some(first.0));
        }
        let (_, key) = self.order.pop_first().ok_or(None)?;
        self.due.remove(&key);
        self.processing.insert(key.clone());
        Ok(key)
    }

    /// Ends the processing of a key, and schedules the key according to `next`.
    pub fn done(&mut self, key: &str, next: Action, now: Instant) {
        self.processing.remove(key);
        if let Some(at) = self.due.get(key) {
            self.order.insert((*at, key.to_owned()));
        }
        match next {
            Action::AwaitChange => drop(self.failures.remove(key)),
            Action::RequeueAfter(pause) => {
                self.failures.remove(key);
                self.add(key, now + pause);
            }
            Action::Retry => {
                let failures = self.failures.entry(key.to_owned()).or_default();
                let pause = exponential_delay(INITIAL_BACKOFF, MAX_BACKOFF, *failures, NO_JITTER);
                *failures = failures.saturating_add(1);
                self.add(key, now + pause);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of keys and backoff on a paused clock.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_key_comes_once_and_never_to_two() {
        let (mut queue, now) = (RateLimitedQueue::default(), Instant::now());
        queue.add("a", now);
        queue.add("a", now);
        queue.add("b", now + SECOND);
        assert_eq!(queue.take(now), Ok("a".to_owned()));
        queue.add("a", now);
        assert_eq!(queue.take(now), Err(Some(now + SECOND)), "somebody looks at `a` and `b` is not due");
        queue.done("a", Action::AwaitChange, now);
        assert_eq!(queue.take(now), Ok("a".to_owned()), "it changed meanwhile");
        queue.done("a", Action::RequeueAfter(SECOND / 2), now);
        assert_eq!(queue.take(now + SECOND), Ok("a".to_owned()));
        assert_eq!(queue.take(now + SECOND), Ok("b".to_owned()));
        assert_eq!(queue.take(now + SECOND), Err(None));
    }

    #[test]
    fn failures_pause_longer_and_longer_until_one_succeeds() {
        let (mut queue, mut now) = (RateLimitedQueue::default(), Instant::now());
        let mut last = Duration::ZERO;
        queue.add("a", now);
        for _ in 0..40 {
            assert!(queue.take(now).is_ok());
            queue.done("a", Action::Retry, now);
            let at = queue.take(now).unwrap_err().unwrap();
            assert!(at - now >= last && at - now <= MAX_BACKOFF);
            last = at - now;
            now = at;
        }
        assert_eq!(last, MAX_BACKOFF);
        queue.take(now).unwrap();
        queue.done("a", Action::AwaitChange, now);
        queue.add("a", now);
        queue.take(now).unwrap();
        queue.done("a", Action::Retry, now);
        assert_eq!(queue.take(now), Err(Some(now + INITIAL_BACKOFF)));
    }

    #[test]
    fn a_change_does_not_wait_for_a_pause() {
        let (mut queue, now) = (RateLimitedQueue::default(), Instant::now());
        queue.add("a", now + SECOND);
        queue.add("a", now);
        assert_eq!(queue.take(now), Ok("a".to_owned()));
        queue.done("a", Action::AwaitChange, now);
        assert_eq!(queue.take(now + SECOND), Err(None));
    }
}
