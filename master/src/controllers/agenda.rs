//! What is to be looked at and when: every key once, later after every failure, never two looks at one key at once. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

/// The pause after the first failure of a key; doubled with every further one. The stock controllers' is 5 ms, which
/// is less than a durable write takes.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause of a key that fails, so that a remedy from outside is noticed.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// When a key that was looked at is due again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Change,
    /// After that time, or when something changes.
    In(Duration),
    /// It failed: after a pause that grows.
    Failed,
}

/// What is to be looked at. It holds a key an object at most, so that it is bounded by what is stored.
#[derive(Debug, Default)]
pub struct Agenda {
    due: HashMap<String, Instant>,
    order: BTreeSet<(Instant, String)>,
    /// Keys that somebody looks at now.
    busy: HashSet<String>,
    failures: HashMap<String, u32>,
}

impl Agenda {
    /// A key is due at that time, unless it is sooner.
    pub fn add(&mut self, key: &str, at: Instant) {
        if let Some(known) = self.due.get(key) {
            if *known <= at {
                return;
            }
            self.order.remove(&(*known, key.to_owned()));
        }
        self.due.insert(key.to_owned(), at);
        // What somebody looks at now is ordered when they are done.
        if !self.busy.contains(key) {
            self.order.insert((at, key.to_owned()));
        }
    }

    /// Takes what is due.
    ///
    /// # Errors
    /// When something will be, if anything is to come.
    pub fn take(&mut self, now: Instant) -> Result<String, Option<Instant>> {
        let first = self.order.first().ok_or(None)?;
        if first.0 > now {
            return Err(Some(first.0));
        }
        let (_, key) = self.order.pop_first().ok_or(None)?;
        self.due.remove(&key);
        self.busy.insert(key.clone());
        Ok(key)
    }

    /// A key has been looked at.
    pub fn done(&mut self, key: &str, next: Next, now: Instant) {
        self.busy.remove(key);
        if let Some(at) = self.due.get(key) {
            self.order.insert((*at, key.to_owned()));
        }
        match next {
            Next::Change => drop(self.failures.remove(key)),
            Next::In(pause) => {
                self.failures.remove(key);
                self.add(key, now + pause);
            }
            Next::Failed => {
                let failures = self.failures.entry(key.to_owned()).or_default();
                let pause = FIRST_PAUSE.saturating_mul(1 << (*failures).min(20)).min(LONGEST_PAUSE);
                *failures = failures.saturating_add(1);
                self.add(key, now + pause);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Keys in time.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_key_comes_once_and_never_to_two() {
        let (mut agenda, now) = (Agenda::default(), Instant::now());
        agenda.add("a", now);
        agenda.add("a", now);
        agenda.add("b", now + SECOND);
        assert_eq!(agenda.take(now), Ok("a".to_owned()));
        agenda.add("a", now);
        assert_eq!(agenda.take(now), Err(Some(now + SECOND)), "somebody looks at `a` and `b` is not due");
        agenda.done("a", Next::Change, now);
        assert_eq!(agenda.take(now), Ok("a".to_owned()), "it changed meanwhile");
        agenda.done("a", Next::In(SECOND / 2), now);
        assert_eq!(agenda.take(now + SECOND), Ok("a".to_owned()));
        assert_eq!(agenda.take(now + SECOND), Ok("b".to_owned()));
        assert_eq!(agenda.take(now + SECOND), Err(None));
    }

    #[test]
    fn failures_pause_longer_and_longer_until_one_succeeds() {
        let (mut agenda, mut now) = (Agenda::default(), Instant::now());
        let mut last = Duration::ZERO;
        agenda.add("a", now);
        for _ in 0..40 {
            assert!(agenda.take(now).is_ok());
            agenda.done("a", Next::Failed, now);
            let at = agenda.take(now).unwrap_err().unwrap();
            assert!(at - now >= last && at - now <= LONGEST_PAUSE);
            last = at - now;
            now = at;
        }
        assert_eq!(last, LONGEST_PAUSE);
        agenda.take(now).unwrap();
        agenda.done("a", Next::Change, now);
        agenda.add("a", now);
        agenda.take(now).unwrap();
        agenda.done("a", Next::Failed, now);
        assert_eq!(agenda.take(now), Err(Some(now + FIRST_PAUSE)));
    }

    #[test]
    fn a_change_does_not_wait_for_a_pause() {
        let (mut agenda, now) = (Agenda::default(), Instant::now());
        agenda.add("a", now + SECOND);
        agenda.add("a", now);
        assert_eq!(agenda.take(now), Ok("a".to_owned()));
        agenda.done("a", Next::Change, now);
        assert_eq!(agenda.take(now + SECOND), Err(None));
    }
}
