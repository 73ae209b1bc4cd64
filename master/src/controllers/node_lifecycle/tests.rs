//! State of the node lifecycle controller after its first list.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
use std::sync::Arc;

use api::time::seconds;

use super::*;

const PACE: Duration = Duration::from_secs(1000);

/// A Node in this zone with an `unreachable:NoExecute` taint that was added at that time.
fn ended(name: &str, zone: &str, at: Timestamp) -> Object {
    let node = json!({
        "metadata": {"name": name, "uid": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": {"taints": [
            {"key": taints::UNREACHABLE, "effect": taints::NO_EXECUTE, "timeAdded": seconds(at)},
            {"key": "example.com/mine", "effect": taints::NO_EXECUTE, "timeAdded": seconds(Timestamp::now())},
        ]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    });
    Object::decode("nodes", node.as_object().unwrap()).unwrap()
}

#[tokio::test]
async fn a_new_leader_continues_the_eviction_rate_of_the_last_one() {
    let client = Client::in_process(axum::Router::new());
    let wanted = NodeLifecycle { eviction_pace: Some(PACE), ..NodeLifecycle::default() };
    let controller =
        NodeLifecycleController::new(client.clone(), client, SharedInformers::default(), &wanted);
    let queue = WorkQueue::default();
    let on_change = |node: Object| {
        let change = Change { kind: Arc::new(Kind::NODE), before: None, now: Some(Arc::new(node)) };
        controller.on_change(&change, &queue);
    };
    let ago = |seconds: u64| Timestamp::now() - Duration::from_secs(seconds);
    // A wrong clock never delays an eviction longer than a correct one.
    for (zone, node, at) in [
        ("z", "old", ago(900)),
        ("z", "new", ago(400)),
        ("z", "older", ago(5000)),
        ("past", "past", ago(5000)),
        ("future", "future", Timestamp::now() + Duration::from_secs(5000)),
    ] {
        on_change(ended(node, zone, at));
    }
    for (zone, least, most) in [("/z", 590, 600), ("/past", 0, 12), ("/future", 990, 1000)] {
        let node = format!("waits{zone}");
        let mut state = controller.state();
        let ready = NodeHealth { zone: "/ready".to_owned(), is_ready: true, counts: true };
        state.zones.put("ready", ready);
        state.zones.put(&node, NodeHealth { zone: zone.to_owned(), is_ready: false, counts: false });
        state.zones.enqueue(&node, Instant::now());
        let zones::NextEviction::In(left) = state.zones.next(zone, Instant::now()) else { panic!("{zone}") };
        assert!((least..=most).contains(&left.as_secs()), "{zone}: {left:?}");
    }
}
