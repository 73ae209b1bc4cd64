//! The backoff with which failed pods are replaced, per node. Pure.
//!
//! A kubelet may reject every new pod at once. Without a pause, pods would be created and deleted in a loop.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Pause after the first failure on a node, as in stock Kubernetes. It doubles with each further failure.
const INITIAL: Duration = Duration::from_secs(1);
/// Maximum pause, as in stock Kubernetes.
const MAX: Duration = Duration::from_secs(15 * 60);
/// Time after which a failure no longer counts, as in stock Kubernetes.
const FORGET_AFTER: Duration = Duration::from_secs(2 * 15 * 60);

/// Identifies the failures of a DaemonSet on a node. A new generation of the DaemonSet starts without a pause.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackoffKey {
    /// The UID of the DaemonSet.
    pub uid: Box<str>,
    /// The observed generation of the DaemonSet.
    pub generation: i64,
    pub node: Box<str>,
}

#[derive(Debug)]
struct Failure {
    at: Instant,
    pause: Duration,
}

/// The last failures. Their number is limited by the nodes and DaemonSets with failures within [`FORGET_AFTER`].
#[derive(Debug, Default)]
pub struct FailedPodBackoff(HashMap<BackoffKey, Failure>);

impl FailedPodBackoff {
    /// Returns the rest of the pause, or `None` if a failed pod may be deleted.
    pub fn remaining(&self, key: &BackoffKey, now: Instant) -> Option<Duration> {
        let failure = self.0.get(key)?;
        let left = (failure.at + failure.pause).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Records that a failed pod is deleted.
    pub fn record(&mut self, key: BackoffKey, now: Instant) {
        self.0.retain(|_, failure| now.saturating_duration_since(failure.at) < FORGET_AFTER);
        let pause = self.0.get(&key).map_or(INITIAL, |failure| (failure.pause * 2).min(MAX));
        self.0.insert(key, Failure { at: now, pause });
    }

    /// Forgets the failures of a DaemonSet that no longer exists.
    pub fn forget(&mut self, uid: &str) {
        self.0.retain(|key, _| *key.uid != *uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(uid: &str, generation: i64, node: &str) -> BackoffKey {
        BackoffKey { uid: uid.into(), generation, node: node.into() }
    }

    #[test]
    fn the_pause_doubles_up_to_the_maximum() {
        let (mut backoff, mut now) = (FailedPodBackoff::default(), Instant::now());
        let own = key("1", 1, "n");
        assert_eq!(backoff.remaining(&own, now), None);
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
            backoff.record(own.clone(), now);
            let pause = Duration::from_secs(expected);
            assert_eq!(backoff.remaining(&own, now), Some(pause));
            assert_eq!(backoff.remaining(&own, now + pause), None);
            now += pause;
        }
        for other in [key("1", 2, "n"), key("1", 1, "m"), key("2", 1, "n")] {
            assert_eq!(backoff.remaining(&other, now), None, "{other:?}");
        }
    }

    #[test]
    fn old_failures_and_those_of_deleted_sets_do_not_count() {
        let (mut backoff, now) = (FailedPodBackoff::default(), Instant::now());
        for _ in 0..9 {
            backoff.record(key("1", 1, "n"), now);
        }
        let late = now + FORGET_AFTER;
        backoff.record(key("1", 1, "n"), late);
        assert_eq!(backoff.remaining(&key("1", 1, "n"), late), Some(INITIAL));
        backoff.forget("1");
        assert!(backoff.0.is_empty());
    }
}
