//! What a controller knows of nodes from the first look.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
use std::sync::Arc;

use api::time::seconds;

use super::*;

const PACE: Duration = Duration::from_secs(1000);

/// A Node of that zone, of which the taint that ends its pods was written at that time.
fn ended(name: &str, zone: &str, at: Timestamp) -> Object {
    let node = json!({
        "metadata": {"name": name, "uid": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": {"taints": [
            {"key": taints::UNREACHABLE, "effect": NO_EXECUTE, "timeAdded": seconds(at)},
            {"key": "example.com/mine", "effect": NO_EXECUTE, "timeAdded": seconds(Timestamp::now())},
        ]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    });
    Object::of("nodes", node.as_object().unwrap())
}

#[tokio::test]
async fn who_begins_goes_on_where_the_last_one_had_come() {
    let client = Client::inside(axum::Router::new());
    let wanted = NodeLifecycle { eviction_pace: Some(PACE), ..NodeLifecycle::default() };
    let controller = Lifecycle::new(client.clone(), client, World::default(), &wanted);
    let queue = Queue::default();
    let hear = |node: Object| {
        let change = Change { kind: Arc::new(Kind::NODE), before: None, now: Some(Arc::new(node)) };
        controller.hear(&change, &queue);
    };
    let ago = |seconds: u64| Timestamp::now() - Duration::from_secs(seconds);
    // A clock that is wrong holds nobody up for longer than one that is right.
    for (zone, node, at) in [
        ("z", "old", ago(900)),
        ("z", "new", ago(400)),
        ("z", "older", ago(5000)),
        ("past", "past", ago(5000)),
        ("future", "future", Timestamp::now() + Duration::from_secs(5000)),
    ] {
        hear(ended(node, zone, at));
    }
    for (zone, least, most) in [("/z", 590, 600), ("/past", 0, 12), ("/future", 990, 1000)] {
        let node = format!("waits{zone}");
        let mut state = controller.state();
        let ready = Place { zone: "/ready".to_owned(), is_ready: true, counts: true };
        state.zones.put("ready", ready);
        state.zones.put(&node, Place { zone: zone.to_owned(), is_ready: false, counts: false });
        state.zones.wait(&node, Instant::now());
        let zones::Next::In(left) = state.zones.next(zone, Instant::now()) else { panic!("{zone}") };
        assert!((least..=most).contains(&left.as_secs()), "{zone}: {left:?}");
    }
}
