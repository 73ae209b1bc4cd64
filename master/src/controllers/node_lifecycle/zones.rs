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
    ready: usize,
    silent: usize,
    waiting: VecDeque<String>,
    last: Option<Instant>,
}

/// All zones.
#[derive(Debug)]
pub struct Zones {
    /// How long after one node of a zone the next one loses its pods; `None` for never.
    pace: Option<Duration>,
    nodes: HashMap<String, Place>,
    zones: BTreeMap<String, Zone>,
    is_stopped: bool,
}

impl Zones {
    /// No nodes yet; one after another loses its pods after that time.
    pub fn new(pace: Option<Duration>) -> Self {
        Self { pace, nodes: HashMap::new(), zones: BTreeMap::new(), is_stopped: false }
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
        self.take_out(node);
        self.count(&place, true);
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
    pub fn wait(&mut self, node: &str) {
        let Some(place) = self.nodes.get(node) else { return };
        let waiting = &mut self.zones.entry(place.zone.clone()).or_default().waiting;
        if !waiting.iter().any(|other| other == node) {
            waiting.push_back(node.to_owned());
        }
    }

    /// A node keeps its pods, or has lost them.
    pub fn leave(&mut self, node: &str) {
        let Some(place) = self.nodes.get(node) else { return };
        if let Some(zone) = self.zones.get_mut(&place.zone) {
            zone.waiting.retain(|other| other != node);
        }
    }

    /// Whose turn it is in a zone.
    pub fn next(&self, zone: &str, now: Instant) -> Next {
        let Some(zone) = self.zones.get(zone) else { return Next::Never };
        let (Some(first), Some(pace)) = (zone.waiting.front(), self.pace_of(zone)) else {
            return Next::Never;
        };
        let left = zone.last.map_or(Duration::ZERO, |last| (last + pace).saturating_duration_since(now));
        if left.is_zero() { Next::Now(first.clone()) } else { Next::In(left) }
    }

    /// A node has got the taint that ends its pods.
    pub fn done(&mut self, node: &str, now: Instant) {
        self.leave(node);
        let zone = self.nodes.get(node).and_then(|place| self.zones.get_mut(&place.zone));
        if let Some(zone) = zone {
            zone.last = Some(now);
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
        if place.counts {
            let number = if place.is_ready { &mut zone.ready } else { &mut zone.silent };
            *number = if comes { *number + 1 } else { number.saturating_sub(1) };
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

    fn place(zone: &str, is_ready: bool) -> Place {
        Place { zone: zone.to_owned(), is_ready, counts: true }
    }

    /// So many nodes of a zone, the first of which are silent and wait.
    fn zone(zones: &mut Zones, name: &str, silent: usize, all: usize) {
        for number in 0..all {
            let node = format!("{name}{number}");
            zones.put(&node, place(name, number >= silent));
            if number < silent {
                zones.wait(&node);
            }
        }
    }

    #[test]
    fn one_after_another_loses_its_pods() {
        let (mut zones, now) = (Zones::new(Some(PACE)), Instant::now());
        zone(&mut zones, "a", 2, 5);
        zone(&mut zones, "b", 1, 2);
        assert_eq!(zones.next("a", now), Next::Now("a0".to_owned()));
        zones.done("a0", now);
        assert_eq!(zones.next("a", now + PACE / 2), Next::In(PACE / 2));
        assert_eq!(zones.next("b", now), Next::Now("b0".to_owned()), "each zone has its own pace");
        zones.wait("a1");
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
            let (mut zones, now) = (Zones::new(Some(PACE)), Instant::now());
            zone(&mut zones, "healthy", 0, 1);
            zone(&mut zones, "a", silent, all);
            if expected.is_some() {
                zones.done("a0", now);
            }
            let wanted = expected.map_or(Next::Never, Next::In);
            assert_eq!(zones.next("a", now), wanted, "{silent} of {all}");
        }
    }

    #[test]
    fn nobody_loses_pods_while_nobody_is_heard() {
        let (mut zones, now) = (Zones::new(Some(PACE)), Instant::now());
        assert_eq!(zones.put("a0", place("a", true)), News::Pace);
        assert_eq!(zones.put("b0", place("b", true)), News::Pace);
        assert_eq!(zones.put("a0", place("a", false)), News::Pace);
        assert_eq!(zones.put("a0", place("a", false)), News::None);
        zones.wait("a0");
        assert_eq!(zones.put("b0", place("b", false)), News::Stopped);
        assert_eq!((zones.is_stopped(), zones.next("a", now)), (true, Next::Never));
        assert_eq!(zones.put("b0", place("b", true)), News::Resumed);
        assert_eq!(zones.next("a", now), Next::Now("a0".to_owned()));
        assert_eq!(zones.remove("b0"), News::Stopped);
        assert_eq!(zones.remove("a0"), News::Resumed, "where there is no node, none is silent");
    }

    #[test]
    fn a_node_may_move_and_may_not_count() {
        let (mut zones, now) = (Zones::new(Some(PACE)), Instant::now());
        zone(&mut zones, "a", 1, 2);
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
