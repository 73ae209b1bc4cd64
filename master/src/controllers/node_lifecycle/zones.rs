//! Zone states and eviction rates. They decide when each node is evicted: slowly in a disrupted zone, and never if
//! no node is ready. Pure.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::controllers::object::Object;
use crate::trust::RESERVED;

/// Percentage of unhealthy nodes from which a zone is disrupted, the default of the stock
/// `--unhealthy-zone-threshold`.
const UNHEALTHY_PERCENT: usize = 55;
/// Minimum number of unhealthy nodes in a disrupted zone.
const MIN_UNHEALTHY_NODES: usize = 3;
/// Number of nodes up to which a disrupted zone evicts nothing, the default of the stock
/// `--large-cluster-size-threshold`.
const LARGE_CLUSTER_SIZE: usize = 50;
/// Interval between evictions in a larger disrupted zone, as the stock `--secondary-node-eviction-rate`.
const SECONDARY_EVICTION_INTERVAL: Duration = Duration::from_secs(100);
/// Maximum of the minimum wait before eviction: a little more than the interval of node leases. Nodes that fail
/// together are all detected within this time.
const MAX_MIN_WAIT: Duration = Duration::from_secs(12);
/// The label of nodes that do not count for the zone state.
const EXCLUDE_LABEL: &str = "node.kubernetes.io/exclude-disruption";

/// The consequence of a node change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneChange {
    /// The change has no consequence.
    None,
    /// The eviction rate of the zone may have changed.
    EvictionRate,
    /// No node is ready: evictions stop.
    AllUnhealthy,
    /// A node is ready again: evictions resume.
    Recovered,
}

/// The next eviction in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextEviction {
    /// Evict this node now.
    Now(String),
    /// Check again after this time.
    In(Duration),
    /// There is no eviction until a node changes.
    Never,
}

/// The zone and health of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHealth {
    /// The zone key, `region/zone`.
    pub zone: String,
    /// Whether the node is ready.
    pub is_ready: bool,
    /// Whether the node counts for the zone state.
    pub counts: bool,
}

impl NodeHealth {
    /// Reads a Node.
    pub fn of(node: &Object, is_ready: bool) -> Self {
        let (region, zone) =
            (node.label("topology.kubernetes.io/region"), node.label("topology.kubernetes.io/zone"));
        // A reserved Node has no machine yet, so its silence is expected.
        let is_reserved = node.node().metadata.annotations.contains_key(RESERVED);
        let counts = !node.labels.contains_key(EXCLUDE_LABEL) && !is_reserved;
        Self { zone: format!("{region}/{zone}"), is_ready, counts }
    }
}

#[derive(Debug, Default)]
struct Zone {
    nodes: usize,
    ready: usize,
    unhealthy: usize,
    /// The eviction queue: nodes and the time when they were added.
    waiting: VecDeque<(String, Instant)>,
    last_eviction: Option<Instant>,
}

#[derive(Debug)]
pub struct ZoneStates {
    /// Interval between evictions in a healthy zone. `None` disables evictions.
    eviction_interval: Option<Duration>,
    /// Minimum wait of each node in the queue.
    min_wait: Duration,
    nodes: HashMap<String, NodeHealth>,
    zones: BTreeMap<String, Zone>,
    evictions_stopped: bool,
}

impl ZoneStates {
    /// Creates the state without nodes. The minimum wait is at most a quarter of the grace period.
    pub fn new(eviction_interval: Option<Duration>, grace: Duration) -> Self {
        Self {
            eviction_interval,
            min_wait: MAX_MIN_WAIT.min(grace / 4),
            nodes: HashMap::new(),
            zones: BTreeMap::new(),
            evictions_stopped: false,
        }
    }

    /// Adds or updates a node.
    pub fn put(&mut self, node: &str, place: NodeHealth) -> ZoneChange {
        let known = self.nodes.get(node);
        if known == Some(&place) {
            return ZoneChange::None;
        }
        let is_moved = known.is_some_and(|known| known.zone != place.zone);
        if is_moved {
            self.dequeue(node);
        }
        // Counted before it is uncounted, so that the zone is not removed in between.
        self.count(&place, true);
        self.uncount(node);
        self.nodes.insert(node.to_owned(), place);
        self.update_stopped()
    }

    pub fn remove(&mut self, node: &str) -> ZoneChange {
        self.dequeue(node);
        self.uncount(node);
        self.update_stopped()
    }

    pub fn evictions_stopped(&self) -> bool {
        self.evictions_stopped
    }

    pub fn zone_of(&self, node: &str) -> Option<&str> {
        self.nodes.get(node).map(|place| place.zone.as_str())
    }

    /// Adds a node to the eviction queue of its zone.
    pub fn enqueue(&mut self, node: &str, now: Instant) {
        let Some(place) = self.nodes.get(node) else { return };
        let waiting = &mut self.zones.entry(place.zone.clone()).or_default().waiting;
        if !waiting.iter().any(|(other, _)| other == node) {
            waiting.push_back((node.to_owned(), now));
        }
    }

    /// Removes a node from the eviction queue.
    pub fn dequeue(&mut self, node: &str) {
        let Some(place) = self.nodes.get(node) else { return };
        if let Some(zone) = self.zones.get_mut(&place.zone) {
            zone.waiting.retain(|(other, _)| other != node);
        }
    }

    pub fn next(&self, zone: &str, now: Instant) -> NextEviction {
        let Some(zone) = self.zones.get(zone) else { return NextEviction::Never };
        let (Some((first, since)), Some(eviction_interval)) = (zone.waiting.front(), self.interval_of(zone))
        else {
            return NextEviction::Never;
        };
        let min_wait = *since + self.min_wait;
        let due = zone
            .last_eviction
            .map_or(min_wait, |last_eviction| min_wait.max(last_eviction + eviction_interval));
        let left = due.saturating_duration_since(now);
        if left.is_zero() { NextEviction::Now(first.clone()) } else { NextEviction::In(left) }
    }

    /// Records that a node got an eviction taint at the given time.
    pub fn evicted(&mut self, node: &str, at: Instant) {
        self.dequeue(node);
        let zone = self.nodes.get(node).and_then(|place| self.zones.get_mut(&place.zone));
        if let Some(zone) = zone {
            zone.last_eviction = zone.last_eviction.max(Some(at));
        }
    }

    fn interval_of(&self, zone: &Zone) -> Option<Duration> {
        let all = zone.ready + zone.unhealthy;
        let is_disrupted = zone.ready > 0
            && zone.unhealthy >= MIN_UNHEALTHY_NODES
            && zone.unhealthy * 100 >= all * UNHEALTHY_PERCENT;
        match (self.evictions_stopped, is_disrupted) {
            (true, _) => None,
            (false, false) => self.eviction_interval,
            (false, true) if all <= LARGE_CLUSTER_SIZE => None,
            (false, true) => self
                .eviction_interval
                .map(|eviction_interval| eviction_interval.max(SECONDARY_EVICTION_INTERVAL)),
        }
    }

    fn uncount(&mut self, node: &str) {
        if let Some(place) = self.nodes.remove(node) {
            self.count(&place, false);
        }
    }

    fn count(&mut self, place: &NodeHealth, comes: bool) {
        let zone = self.zones.entry(place.zone.clone()).or_default();
        let step = |number: &mut usize| *number = if comes { *number + 1 } else { number.saturating_sub(1) };
        step(&mut zone.nodes);
        if place.counts {
            step(if place.is_ready { &mut zone.ready } else { &mut zone.unhealthy });
        }
        // Empty zones are removed, since nodes could name new zones without limit.
        if zone.nodes == 0 && zone.waiting.is_empty() {
            self.zones.remove(&place.zone);
        }
    }

    fn update_stopped(&mut self) -> ZoneChange {
        let before = self.evictions_stopped;
        let ready: usize = self.zones.values().map(|zone| zone.ready).sum();
        let unhealthy: usize = self.zones.values().map(|zone| zone.unhealthy).sum();
        self.evictions_stopped = ready == 0 && unhealthy > 0;
        match (before, self.evictions_stopped) {
            (false, true) => ZoneChange::AllUnhealthy,
            (true, false) => ZoneChange::Recovered,
            _ => ZoneChange::EvictionRate,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of eviction rates of zones over time.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    const PACE: Duration = Duration::from_secs(10);

    const GRACE: Duration = Duration::from_secs(50);

    /// Returns zones without nodes, the start time, and the time when the minimum wait is over.
    fn begin() -> (ZoneStates, Instant, Instant) {
        let start = Instant::now();
        (ZoneStates::new(Some(PACE), GRACE), start, start + MAX_MIN_WAIT)
    }

    fn place(zone: &str, is_ready: bool) -> NodeHealth {
        NodeHealth { zone: zone.to_owned(), is_ready, counts: true }
    }

    /// Adds `all` nodes to a zone. The first `unhealthy` nodes are not ready, and are queued for eviction.
    fn zone(zones: &mut ZoneStates, name: &str, unhealthy: usize, all: usize, since: Instant) {
        for number in 0..all {
            let node = format!("{name}{number}");
            zones.put(&node, place(name, number >= unhealthy));
            if number < unhealthy {
                zones.enqueue(&node, since);
            }
        }
    }

    #[test]
    fn one_after_another_loses_its_pods() {
        let (mut zones, start, now) = begin();
        zone(&mut zones, "a", 2, 5, start);
        zone(&mut zones, "b", 1, 2, start);
        assert_eq!(
            zones.next("a", start + MAX_MIN_WAIT / 3),
            NextEviction::In(MAX_MIN_WAIT * 2 / 3),
            "others may fall silent with it"
        );
        assert_eq!(zones.next("a", now), NextEviction::Now("a0".to_owned()));
        zones.evicted("a0", now);
        assert_eq!(zones.next("a", now + PACE / 2), NextEviction::In(PACE / 2));
        assert_eq!(zones.next("b", now), NextEviction::Now("b0".to_owned()), "each zone has its own pace");
        zones.enqueue("a1", now);
        assert_eq!(zones.next("a", now + PACE), NextEviction::Now("a1".to_owned()));
        zones.dequeue("a1");
        assert_eq!(zones.next("a", now + PACE), NextEviction::Never);
    }

    #[test]
    fn a_disrupted_zone_is_slow_or_stops() {
        for (unhealthy, all, expected) in [
            (2, 3, Some(PACE)),
            (3, 5, None),
            (27, 50, Some(PACE)),
            (28, 50, None),
            (56, 100, Some(SECONDARY_EVICTION_INTERVAL)),
            (54, 100, Some(PACE)),
            // The whole zone is unhealthy, but another zone is not.
            (100, 100, Some(PACE)),
        ] {
            let (mut zones, start, now) = begin();
            zone(&mut zones, "healthy", 0, 1, start);
            zone(&mut zones, "a", unhealthy, all, start);
            if expected.is_some() {
                zones.evicted("a0", now);
            }
            let wanted = expected.map_or(NextEviction::Never, NextEviction::In);
            assert_eq!(zones.next("a", now), wanted, "{unhealthy} of {all}");
        }
    }

    #[test]
    fn evictions_stop_while_all_nodes_are_unhealthy() {
        let (mut zones, start, now) = begin();
        assert_eq!(zones.put("a0", place("a", true)), ZoneChange::EvictionRate);
        assert_eq!(zones.put("b0", place("b", true)), ZoneChange::EvictionRate);
        assert_eq!(zones.put("a0", place("a", false)), ZoneChange::EvictionRate);
        assert_eq!(zones.put("a0", place("a", false)), ZoneChange::None);
        zones.enqueue("a0", start);
        assert_eq!(zones.put("b0", place("b", false)), ZoneChange::AllUnhealthy);
        assert_eq!((zones.evictions_stopped(), zones.next("a", now)), (true, NextEviction::Never));
        assert_eq!(zones.put("b0", place("b", true)), ZoneChange::Recovered);
        assert_eq!(zones.next("a", now), NextEviction::Now("a0".to_owned()));
        assert_eq!(zones.remove("b0"), ZoneChange::AllUnhealthy);
        assert_eq!(zones.remove("a0"), ZoneChange::Recovered, "where there is no node, none is silent");
    }

    #[test]
    fn a_zone_is_there_for_as_long_as_a_node_is() {
        let (mut zones, start, now) = begin();
        zone(&mut zones, "a", 1, 1, start);
        zones.evicted("a0", now);
        for is_ready in [true, false] {
            zones.put("a0", place("a", is_ready));
        }
        zones.enqueue("a0", start);
        assert_eq!(zones.next("a", now), NextEviction::Never, "no node is ready");
        zones.put("healthy", place("b", true));
        assert_eq!(zones.next("a", now), NextEviction::In(PACE), "it still knows whose turn was last");
        for number in 0..9 {
            let name = format!("new{number}");
            zones.put("a0", place(&name, false));
            zones.enqueue("a0", now);
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
        assert_eq!((zones.next("a", now), zones.next("b", now)), (NextEviction::Never, NextEviction::Never));
        assert_eq!(zones.zone_of("a0"), Some("b"));
        let odd = NodeHealth { counts: false, ..place("a", true) };
        zones.put("odd", odd);
        zones.put("a1", place("a", false));
        assert!(zones.evictions_stopped(), "who is excluded saves nobody");
        let health = |metadata: serde_json::Value, is_ready: bool| {
            let node = serde_json::json!({"metadata": metadata});
            NodeHealth::of(&Object::decode("nodes", node.as_object().unwrap()).unwrap(), is_ready)
        };
        let labels = serde_json::json!({"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z", EXCLUDE_LABEL: ""});
        let excluded = health(serde_json::json!({"labels": labels}), true);
        assert_eq!(excluded, NodeHealth { zone: "r/z".to_owned(), is_ready: true, counts: false });
        let unlabelled = health(serde_json::json!({}), true);
        assert_eq!(unlabelled, NodeHealth { zone: "/".to_owned(), is_ready: true, counts: true });
        let reserved = health(serde_json::json!({"annotations": {RESERVED: "true"}}), false);
        assert!(!reserved.counts);
    }
}
