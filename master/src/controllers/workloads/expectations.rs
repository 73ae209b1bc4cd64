//! Writes that the informers have not shown yet. A controller that acted on a cache without its own writes would
//! repeat them. Pure.
//!
//! Stock controllers count the events that they expect, and give up after five minutes. Here each expectation names
//! an object, so an overdue one is confirmed with the API server.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Age at which an expectation is confirmed with the API server, because the write may have failed without a
/// response.
pub const CONFIRM_AFTER: Duration = Duration::from_secs(10);

/// A write of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The object was created.
    Created,
    /// The object with this UID was deleted, or is terminating.
    Deleted { uid: Box<str> },
    /// The object with this UID no longer has this resource version.
    Changed { uid: Box<str>, resource_version: Box<str> },
}

/// An observed object, from a cache or from the API server.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub uid: &'a str,
    pub resource_version: &'a str,
    pub is_terminating: bool,
}

impl Expected {
    /// Whether the object shows the write.
    fn is_met_by(&self, seen: Option<Seen<'_>>) -> bool {
        match (self, seen) {
            (Self::Created, seen) => seen.is_some(),
            (_, None) => true,
            (Self::Deleted { uid }, Some(seen)) => *seen.uid != **uid || seen.is_terminating,
            (Self::Changed { uid, resource_version }, Some(seen)) => {
                *seen.uid != **uid || *seen.resource_version != **resource_version
            }
        }
    }

    /// Whether the API server's state shows that the write did not happen, or that its result no longer exists.
    fn is_void(&self, live: Option<Seen<'_>>) -> bool {
        match self {
            Self::Created => live.is_none(),
            Self::Deleted { .. } | Self::Changed { .. } => live.is_some() && !self.is_met_by(live),
        }
    }
}

#[derive(Debug)]
struct Pending {
    expected: Expected,
    since: Instant,
}

/// Expectations, by the UID of the owner and the name of the object. The number of writes in progress limits their
/// number.
#[derive(Debug, Default)]
pub struct Expectations(HashMap<Box<str>, HashMap<Box<str>, Pending>>);

impl Expectations {
    /// Adds an expectation, before the request is sent.
    pub fn expect(&mut self, owner: &str, name: &str, expected: Expected, now: Instant) {
        let pending = Pending { expected, since: now };
        self.0.entry(owner.into()).or_default().insert(name.into(), pending);
    }

    /// Removes the expectation of a write that the API server refused.
    pub fn refused(&mut self, owner: &str, name: &str) {
        self.remove(owner, name);
    }

    /// Records that an event showed the object. The object may no longer exist when the owner is reconciled.
    pub fn observe(&mut self, owner: &str, name: &str) {
        let pending = self.0.get(owner).and_then(|pending| pending.get(name));
        if pending.is_some_and(|pending| pending.expected == Expected::Created) {
            self.remove(owner, name);
        }
    }

    /// Returns the names of objects whose writes are expected.
    pub fn pending(&self, owner: &str) -> Vec<Box<str>> {
        self.0.get(owner).into_iter().flat_map(HashMap::keys).cloned().collect()
    }

    /// Removes expectations that the cache meets. Returns true if none is left.
    pub fn settle<'a>(&mut self, owner: &str, cached: impl Fn(&str) -> Option<Seen<'a>>) -> bool {
        let Some(pending) = self.0.get_mut(owner) else { return true };
        pending.retain(|name, pending| !pending.expected.is_met_by(cached(name)));
        let is_settled = pending.is_empty();
        if is_settled {
            self.0.remove(owner);
        }
        is_settled
    }

    /// Returns the names of objects whose expectations must be confirmed with the API server.
    pub fn overdue(&self, owner: &str, now: Instant) -> Vec<Box<str>> {
        let pending = self.0.get(owner).into_iter().flatten();
        let is_overdue = |pending: &Pending| now.duration_since(pending.since) >= CONFIRM_AFTER;
        pending.filter(|(_, pending)| is_overdue(pending)).map(|(name, _)| name.clone()).collect()
    }

    /// Confirms an overdue expectation with the current state of the object in the API server.
    pub fn confirm(&mut self, owner: &str, name: &str, live: Option<Seen<'_>>, now: Instant) {
        let Some(pending) = self.0.get_mut(owner).and_then(|pending| pending.get_mut(name)) else { return };
        if pending.expected.is_void(live) {
            self.remove(owner, name);
        } else {
            pending.since = now;
        }
    }

    /// Removes the expectations of an owner that no longer exists.
    pub fn forget(&mut self, owner: &str) {
        self.0.remove(owner);
    }

    fn remove(&mut self, owner: &str, name: &str) {
        let Some(pending) = self.0.get_mut(owner) else { return };
        pending.remove(name);
        if pending.is_empty() {
            self.0.remove(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const OWNER: &str = "1";

    fn seen(uid: &str, is_terminating: bool) -> Option<Seen<'_>> {
        Some(Seen { uid, resource_version: "7", is_terminating })
    }

    #[test]
    fn a_write_is_expected_until_the_cache_shows_it() {
        let (mut all, now) = (Expectations::default(), Instant::now());
        assert!(all.settle(OWNER, |_| None));
        all.expect(OWNER, "a", Expected::Created, now);
        assert!(!all.settle(OWNER, |_| None) && all.settle("2", |_| None));
        assert!(all.settle(OWNER, |_| seen("x", false)));
        let deleted = || Expected::Deleted { uid: "x".into() };
        for (cached, is_settled) in
            [(seen("x", false), false), (seen("x", true), true), (seen("y", false), true), (None, true)]
        {
            all.expect(OWNER, "a", deleted(), now);
            assert_eq!(all.settle(OWNER, |_| cached), is_settled, "{cached:?}");
        }
        for (version, is_settled) in [("7", false), ("6", true)] {
            let changed = Expected::Changed { uid: "x".into(), resource_version: version.into() };
            all.expect(OWNER, "a", changed, now);
            assert_eq!(all.settle(OWNER, |_| seen("x", false)), is_settled, "{version}");
        }
    }

    #[test]
    fn an_object_that_came_and_went_is_not_expected() {
        let (mut all, now) = (Expectations::default(), Instant::now());
        all.expect(OWNER, "a", Expected::Created, now);
        all.expect(OWNER, "b", Expected::Created, now);
        all.observe(OWNER, "a");
        all.refused(OWNER, "b");
        assert!(all.settle(OWNER, |_| None));
        all.expect(OWNER, "a", Expected::Deleted { uid: "x".into() }, now);
        all.observe(OWNER, "a");
        assert!(!all.settle(OWNER, |_| seen("x", false)), "an event may be older than the deletion");
    }

    #[test]
    fn an_overdue_write_is_confirmed() {
        let (mut all, start) = (Expectations::default(), Instant::now());
        let late = start + CONFIRM_AFTER;
        all.expect(OWNER, "a", Expected::Created, start);
        all.expect(OWNER, "b", Expected::Deleted { uid: "x".into() }, start);
        assert!(all.overdue(OWNER, start).is_empty());
        assert_eq!(all.overdue(OWNER, late).len(), 2);
        // The API server has the pod, and has deleted the other: only the cache lags.
        all.confirm(OWNER, "a", seen("z", false), late);
        all.confirm(OWNER, "b", None, late);
        assert!(
            all.overdue(OWNER, late).is_empty()
                && !all.settle(OWNER, |name| (name == "b").then(|| seen("x", false)).flatten())
        );
        // Neither request reached the API server.
        all.confirm(OWNER, "a", None, late);
        all.confirm(OWNER, "b", seen("x", false), late);
        assert!(all.settle(OWNER, |_| seen("x", false)));
    }
}
