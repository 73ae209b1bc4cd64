//! When a sign of life of a node was heard last, by the clock of who hears it. Pure.
//!
//! No time that a node or a master has written counts: a clock that jumps ends nothing.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// When the nodes were heard.
#[derive(Debug, Default)]
pub struct Beats(HashMap<String, Instant>);

impl Beats {
    /// A node was heard.
    pub fn heard(&mut self, node: &str, now: Instant) {
        match self.0.get_mut(node) {
            Some(at) => *at = now,
            None => drop(self.0.insert(node.to_owned(), now)),
        }
    }

    /// A node whose Node has just been seen, if never before, counts as heard.
    pub fn meet(&mut self, node: &str, now: Instant) {
        if !self.0.contains_key(node) {
            self.heard(node, now);
        }
    }

    /// A node that is known was heard; what nobody knows is not counted.
    pub fn renewed(&mut self, node: &str, now: Instant) {
        if let Some(at) = self.0.get_mut(node) {
            *at = now;
        }
    }

    /// A node is gone.
    pub fn forget(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// How much of its grace is left to a node of which nothing could have been missed since then; nothing when it is silent.
    pub fn left(
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
    //! Nodes in time.
    use proptest::prelude::*;

    use super::*;

    const GRACE: Duration = Duration::from_secs(50);

    #[test]
    fn a_node_is_silent_after_its_grace_and_not_before() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let left = |beats: &Beats, since: u64, now: u64| {
            beats.left("a", after(since), GRACE, after(now)).map(|left| left.as_secs())
        };
        let mut beats = Beats::default();
        beats.renewed("a", after(0));
        assert_eq!(left(&beats, 10, 20), Some(40), "what is not known is heard when it could be");
        beats.meet("a", after(5));
        beats.meet("a", after(15));
        assert_eq!(left(&beats, 0, 20), Some(35));
        beats.renewed("a", after(20));
        assert_eq!(left(&beats, 0, 69), Some(1));
        assert_eq!(left(&beats, 0, 70), None);
        assert_eq!(left(&beats, 69, 70), Some(49), "who was away gives a whole grace");
    }

    proptest! {
        #[test]
        fn nobody_is_silent_who_was_heard_within_the_grace(beats in prop::collection::vec(0_u64..500, 1..20), away in 0_u64..500, now in 0_u64..500) {
            let start = Instant::now();
            let after = |seconds: u64| start + Duration::from_secs(seconds);
            let mut sorted: Vec<u64> = beats.into_iter().filter(|at| *at <= now).collect();
            sorted.sort_unstable();
            let mut heard = Beats::default();
            sorted.iter().for_each(|at| heard.heard("a", after(*at)));
            let since = away.min(now);
            let last = sorted.last().copied().unwrap_or(0).max(since);
            let is_silent = heard.left("a", after(since), GRACE, after(now)).is_none();
            prop_assert_eq!(is_silent, now - last >= 50);
        }
    }
}
