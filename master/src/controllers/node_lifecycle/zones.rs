//! How many nodes of a zone are ready, and which node of it loses its pods when: one after another, slowly where many are
//! silent, and none where all are. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::controllers::client::Json;
use crate::controllers::object::at;
use crate::trust::RESERVED;

/// From this share of nodes that are not ready on a zone is disrupted; the stock controller's `--unhealthy-zone-threshold`.
const UNHEALTHY_PERCENT: usize = 55;
/// So many nodes have to be not ready for that at least.
const UNHEALTHY_LEAST: usize = 3;
/// In a disrupted zone with no more nodes than these none loses its pods; the stock `--large-cluster-size-threshold`.
const SMALL: usize = 50;
/// How long after one node of a larger disrupted zone the next loses its pods; the stock `--secondary-node-eviction-rate`.
const DISRUPTED: Duration = Duration::from_secs(100);
/// How long a node waits for its turn at least: as long as kubelets take between two leases, and a little. Those that fall silent
/// together are heard of to do so within that time.
const HELD: Duration = Duration::from_secs(12);
/// The label of nodes whose silence says nothing of their zone.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// What follows from a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing.
    None,
    /// Whose turn it is in that zone has to be asked anew.
    Pace,
    /// No node is ready any more: nobody loses pods from now on.
    Stopped,
    /// One is again.
    Resumed,
}

/// Whether the first node that waits in a zone is to lose its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Now, this one.
    Now(String),
    /// After that time.
    In(Duration),
    /// Not before something changes.
    Never,
}

/// What counts of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The key of its zone.
    pub zone: String,
    /// It is ready.
    pub is_ready: bool,
    /// It says something of its zone.
    pub counts: bool,
}

impl Place {
    /// That of a Node.
    pub fn of(node: &Json, is_ready: bool) -> Self {
        let labels = at(node, "/metadata/labels");
        let label = |name: &str| labels.and_then(|labels| labels.get(name)).and_then(Value::as_str);
        let (region, zone) = (label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"));
        let zone = format!("{}/{}", region.unwrap_or_default(), zone.unwrap_or_default());
        // One that only keeps the place of a machine that has never come is silent for good reason.
        let counts = label(EXCLUDED).is_none() && !is_reserved(node);
        Self { zone, is_ready, counts }
    }
}

fn is_reserved(node: &Json) -> bool {
    at(node, "/metadata/annotations").is_some_and(|annotations| annotations.get(RESERVED).is_some())
}

#[derive(Debug, Default)]
struct Zone {
    nodes: usize,
    ready: usize,
    silent: usize,
    /// Who waits, and since when.
    waiting: VecDeque<(String, Instant)>,
    last: Option<Instant>,
}

/// All zones.
#[derive(Debug)]
pub struct Zones {
    /// How long after one node of a zone the next one loses its pods; `None` for never.
    pace: Option<Duration>,
    /// How long each waits at least.
    held: Duration,
    nodes: HashMap<String, Place>,
    zones: BTreeMap<String, Zone>,
    is_stopped: bool,
}

impl Zones {
    /// No nodes yet; one after another loses its pods after that time, none of them before a part of that grace.
    pub fn new(pace: Option<Duration>, grace: Duration) -> Self {
        Self {
            pace,
            held: HELD.min(grace / 4),
            nodes: HashMap::new(),
            zones: BTreeMap::new(),
            is_stopped: false,
        }
    }

    /// A node is like that.
    pub fn put(&mut self, node: &str, place: Place) -> News {
        let known = self.nodes.get(node);
        if known == Some(&place) {
            return News::None;
        }
        let is_moved = known.is_some_and(|known| known.zone != place.zone);
        if is_moved {
            self.leave(node);
        }
        // Before it is taken out as it was, so that its zone keeps what it knows.
        self.count(&place, true);
        self.take_out(node);
        self.nodes.insert(node.to_owned(), place);
        self.settle()
    }

    /// A node is gone.
    pub fn remove(&mut self, node: &str) -> News {
        self.leave(node);
        self.take_out(node);
        self.settle()
    }

    /// Nobody loses pods now.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The zone of a node.
    pub fn zone_of(&self, node: &str) -> Option<&str> {
        self.nodes.get(node).map(|place| place.zone.as_str())
    }

    /// A node is to lose its pods when its turn comes.
    pub fn wait(&mut self, node: &str, now: Instant) {
        let Some(place) = self.nodes.get(node) else { return };
        let waiting = &mut self.zones.entry(place.zone.clone()).or_default().waiting;
        if !waiting.iter().any(|(other, _)| other == node) {
            waiting.push_back((node.to_owned(), now));
        }
    }

    /// A node keeps its pods, or has lost them.
    pub fn leave(&mut self, node: &str) {
        let Some(place) = self.nodes.get(node) else { return };
        if let Some(zone) = self.zones.get_mut(&place.zone) {
            zone.waiting.retain(|(other, _)| other != node);
        }
    }

    /// Whose turn it is in a zone.
    pub fn next(&self, zone: &str, now: Instant) -> Next {
        let Some(zone) = self.zones.get(zone) else { return Next::Never };
        let (Some((first, since)), Some(pace)) = (zone.waiting.front(), self.pace_of(zone)) else {
            return Next::Never;
        };
        let held = *since + self.held;
        let due = zone.last.map_or(held, |last| held.max(last + pace));
        let left = due.saturating_duration_since(now);
        if left.is_zero() { Next::Now(first.clone()) } else { Next::In(left) }
    }

    /// A node has got the taint that ends its pods, at that time.
    pub fn done(&mut self, node: &str, at: Instant) {
        self.leave(node);
        let zone = self.nodes.get(node).and_then(|place| self.zones.get_mut(&place.zone));
        if let Some(zone) = zone {
            zone.last = zone.last.max(Some(at));
        }
    }

    fn pace_of(&self, zone: &Zone) -> Option<Duration> {
        let all = zone.ready + zone.silent;
        let is_disrupted =
            zone.ready > 0 && zone.silent >= UNHEALTHY_LEAST && zone.silent * 100 >= all * UNHEALTHY_PERCENT;
        match (self.is_stopped, is_disrupted) {
            (true, _) => None,
            (false, false) => self.pace,
            (false, true) if all <= SMALL => None,
            (false, true) => self.pace.map(|pace| pace.max(DISRUPTED)),
        }
    }

    fn take_out(&mut self, node: &str) {
        if let Some(place) = self.nodes.remove(node) {
            self.count(&place, false);
        }
    }

    fn count(&mut self, place: &Place, comes: bool) {
        let zone = self.zones.entry(place.zone.clone()).or_default();
        let step = |number: &mut usize| *number = if comes { *number + 1 } else { number.saturating_sub(1) };
        step(&mut zone.nodes);
        if place.counts {
            step(if place.is_ready { &mut zone.ready } else { &mut zone.silent });
        }
        // A node may name new zones for ever.
        if zone.nodes == 0 && zone.waiting.is_empty() {
            self.zones.remove(&place.zone);
        }
    }

    fn settle(&mut self) -> News {
        let before = self.is_stopped;
        let ready: usize = self.zones.values().map(|zone| zone.ready).sum();
        let silent: usize = self.zones.values().map(|zone| zone.silent).sum();
        self.is_stopped = ready == 0 && silent > 0;
        match (before, self.is_stopped) {
            (false, true) => News::Stopped,
            (true, false) => News::Resumed,
            _ => News::Pace,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Zones in time.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    const PACE: Duration = Duration::from_secs(10);

    const GRACE: Duration = Duration::from_secs(50);

    /// No nodes, and a time when those that began to wait with it are held no more.
    fn begin() -> (Zones, Instant, Instant) {
        let start = Instant::now();
        (Zones::new(Some(PACE), GRACE), start, start + HELD)
    }

    fn place(zone: &str, is_ready: bool) -> Place {
        Place { zone: zone.to_owned(), is_ready, counts: true }
    }

    /// So many nodes of a zone, the first of which are silent and wait.
    fn zone(zones: &mut Zones, name: &str, silent: usize, all: usize, since: Instant) {
        for number in 0..all {
            let node = format!("{name}{number}");
            zones.put(&node, place(name, number >= silent));
            if number < silent {
                zones.wait(&node, since);
            }
        }
    }

    #[test]
    fn one_after_another_loses_its_pods() {
        let (mut zones, start, now) = begin();
        zone(&mut zones, "a", 2, 5, start);
        zone(&mut zones, "b", 1, 2, start);
        assert_eq!(
            zones.next("a", start + HELD / 3),
            Next::In(HELD * 2 / 3),
            "others may fall silent with it"
        );
        assert_eq!(zones.next("a", now), Next::Now("a0".to_owned()));
        zones.done("a0", now);
        assert_eq!(zones.next("a", now + PACE / 2), Next::In(PACE / 2));
        assert_eq!(zones.next("b", now), Next::Now("b0".to_owned()), "each zone has its own pace");
        zones.wait("a1", now);
        assert_eq!(zones.next("a", now + PACE), Next::Now("a1".to_owned()));
        zones.leave("a1");
        assert_eq!(zones.next("a", now + PACE), Next::Never);
    }

    #[test]
    fn a_disrupted_zone_is_slow_or_stops() {
        for (silent, all, expected) in [
            (2, 3, Some(PACE)),
            (3, 5, None),
            (27, 50, Some(PACE)),
            (28, 50, None),
            (56, 100, Some(DISRUPTED)),
            (54, 100, Some(PACE)),
            // The whole zone, but not all of them.
            (100, 100, Some(PACE)),
        ] {
            let (mut zones, start, now) = begin();
            zone(&mut zones, "healthy", 0, 1, start);
            zone(&mut zones, "a", silent, all, start);
            if expected.is_some() {
                zones.done("a0", now);
            }
            let wanted = expected.map_or(Next::Never, Next::In);
            assert_eq!(zones.next("a", now), wanted, "{silent} of {all}");
        }
    }

    #[test]
    fn nobody_loses_pods_while_nobody_is_heard() {
        let (mut zones, start, now) = begin();
        assert_eq!(zones.put("a0", place("a", true)), News::Pace);
        assert_eq!(zones.put("b0", place("b", true)), News::Pace);
        assert_eq!(zones.put("a0", place("a", false)), News::Pace);
        assert_eq!(zones.put("a0", place("a", false)), News::None);
        zones.wait("a0", start);
        assert_eq!(zones.put("b0", place("b", false)), News::Stopped);
        assert_eq!((zones.is_stopped(), zones.next("a", now)), (true, Next::Never));
        assert_eq!(zones.put("b0", place("b", true)), News::Resumed);
        assert_eq!(zones.next("a", now), Next::Now("a0".to_owned()));
        assert_eq!(zones.remove("b0"), News::Stopped);
        assert_eq!(zones.remove("a0"), News::Resumed, "where there is no node, none is silent");
    }

    #[test]
    fn a_zone_is_there_for_as_long_as_a_node_is() {
        let (mut zones, start, now) = begin();
        zone(&mut zones, "a", 1, 1, start);
        zones.done("a0", now);
        for is_ready in [true, false] {
            zones.put("a0", place("a", is_ready));
        }
        zones.wait("a0", start);
        assert_eq!(zones.next("a", now), Next::Never, "no node is ready");
        zones.put("healthy", place("b", true));
        assert_eq!(zones.next("a", now), Next::In(PACE), "it still knows whose turn was last");
        for number in 0..9 {
            let name = format!("new{number}");
            zones.put("a0", place(&name, false));
            zones.wait("a0", now);
            assert_eq!(zones.zones.keys().collect::<Vec<_>>(), ["b", name.as_str()]);
        }
        zones.remove("a0");
        zones.remove("healthy");
        assert!(zones.zones.is_empty());
    }

    #[test]
    fn a_node_may_move_and_may_not_count() {
        let (mut zones, start, now) = begin();
        zone(&mut zones, "a", 1, 2, start);
        zones.put("a0", place("b", false));
        assert_eq!((zones.next("a", now), zones.next("b", now)), (Next::Never, Next::Never));
        assert_eq!(zones.zone_of("a0"), Some("b"));
        let odd = Place { counts: false, ..place("a", true) };
        zones.put("odd", odd);
        zones.put("a1", place("a", false));
        assert!(zones.is_stopped(), "who is excluded saves nobody");
        let labelled = |labels: Value| {
            let node = serde_json::json!({"metadata": {"labels": labels}});
            Place::of(node.as_object().unwrap(), true)
        };
        let labels = serde_json::json!({"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z", EXCLUDED: ""});
        assert_eq!(labelled(labels), Place { zone: "r/z".to_owned(), is_ready: true, counts: false });
        assert_eq!(labelled(Value::Null), Place { zone: "/".to_owned(), is_ready: true, counts: true });
        let reserved = serde_json::json!({"metadata": {"annotations": {RESERVED: "true"}}});
        assert!(!Place::of(reserved.as_object().unwrap(), false).counts);
    }
}
