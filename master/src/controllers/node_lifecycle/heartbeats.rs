//! Records when each node's last heartbeat was observed, by the local clock. Pure.
//!
//! Times that nodes or masters write are ignored, so that a clock jump evicts no pods.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The time of the last observed heartbeat, by node.
#[derive(Debug, Default)]
pub struct Heartbeats(HashMap<String, Instant>);

impl Heartbeats {
    /// Records a heartbeat of a node.
    pub fn record(&mut self, node: &str, now: Instant) {
        match self.0.get_mut(node) {
            Some(at) => *at = now,
            None => drop(self.0.insert(node.to_owned(), now)),
        }
    }

    /// Starts to track a node. Its first observation counts as a heartbeat.
    pub fn track(&mut self, node: &str, now: Instant) {
        if !self.0.contains_key(node) {
            self.record(node, now);
        }
    }

    /// Records a heartbeat of a tracked node. Ignores unknown nodes.
    pub fn renew(&mut self, node: &str, now: Instant) {
        if let Some(at) = self.0.get_mut(node) {
            *at = now;
        }
    }

    /// Stops tracking a node.
    pub fn forget(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// Returns the rest of a node's grace period, or `None` if it is over. Time before `missed_nothing_since` does
    /// not count, because heartbeats may have been missed then.
    pub fn remaining_grace(
        &self,
        node: &str,
        missed_nothing_since: Instant,
        grace: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let heard = self.0.get(node).copied().unwrap_or(missed_nothing_since).max(missed_nothing_since);
        let left = (heard + grace).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the grace period of heartbeats.
    use proptest::prelude::*;

    use super::*;

    const GRACE: Duration = Duration::from_secs(50);

    #[test]
    fn a_node_is_silent_after_its_grace_and_not_before() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let left = |heartbeats: &Heartbeats, since: u64, now: u64| {
            heartbeats.remaining_grace("a", after(since), GRACE, after(now)).map(|left| left.as_secs())
        };
        let mut heartbeats = Heartbeats::default();
        heartbeats.renew("a", after(0));
        assert_eq!(left(&heartbeats, 10, 20), Some(40), "what is not known is heard when it could be");
        heartbeats.track("a", after(5));
        heartbeats.track("a", after(15));
        assert_eq!(left(&heartbeats, 0, 20), Some(35));
        heartbeats.renew("a", after(20));
        assert_eq!(left(&heartbeats, 0, 69), Some(1));
        assert_eq!(left(&heartbeats, 0, 70), None);
        assert_eq!(left(&heartbeats, 69, 70), Some(49), "who was away gives a whole grace");
    }

    proptest! {
        #[test]
        fn node_with_a_recent_heartbeat_is_never_overdue(heartbeats in prop::collection::vec(0_u64..500, 1..20), away in 0_u64..500, now in 0_u64..500) {
            let start = Instant::now();
            let after = |seconds: u64| start + Duration::from_secs(seconds);
            let mut sorted: Vec<u64> = heartbeats.into_iter().filter(|at| *at <= now).collect();
            sorted.sort_unstable();
            let mut heard = Heartbeats::default();
            sorted.iter().for_each(|at| heard.record("a", after(*at)));
            let since = away.min(now);
            let last = sorted.last().copied().unwrap_or(0).max(since);
            let is_silent = heard.remaining_grace("a", after(since), GRACE, after(now)).is_none();
            prop_assert_eq!(is_silent, now - last >= 50);
        }
    }
}
