//! What is told of two answers of a node.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ask::Asked;
use super::tell::{Counts, Told, Window, is_silent, of_node, of_pod};

fn part(name: &str, since: &str, seconds: f64, mib: u64) -> Value {
    json!({
        "name": name, "startTime": since, "cpu": {"usageCoreNanoSeconds": (seconds * 1e9) as u64, "time": "t"},
        "memory": {"workingSetBytes": mib << 20, "rssBytes": 1},
    })
}

fn counts(node: Value, containers: &[Value]) -> Counts {
    let pod = json!({"podRef": {"name": "p", "namespace": "shop", "uid": "u"}, "containers": containers});
    serde_json::from_value(json!({"node": node, "pods": [pod]})).unwrap()
}

fn object(name: &str, more: Value) -> Told {
    let mut object =
        json!({"metadata": {"name": name, "namespace": "shop", "labels": {"app": "x"}, "uid": "u"}});
    object["status"] = more;
    object.as_object().unwrap().clone()
}

fn window() -> Window {
    let before =
        counts(part("", "boot", 100.0, 100), &[part("old", "then", 5.0, 8), part("same", "then", 1.0, 8)]);
    let now = counts(
        part("", "boot", 103.0, 120),
        &[part("old", "later", 0.2, 9), part("same", "then", 2.0, 10), part("new", "later", 0.02, 3)],
    );
    Window { before: Arc::new(before), now: Arc::new(now), lasts: Duration::from_millis(2000) }
}

#[test]
fn what_is_used_is_what_was_counted_between_two_answers() {
    let at = Timestamp::from_second(1_000_000_000).unwrap();
    let node = of_node(&object("n", Value::Null), &window(), at);
    assert_eq!(node["usage"], json!({"cpu": "1500000000n", "memory": "122880Ki"}));
    assert_eq!((&node["timestamp"], &node["window"]), (&json!("2001-09-09T01:46:40Z"), &json!("2.000s")));
    let pod = of_pod(&object("p", Value::Null), &window(), at).unwrap();
    assert_eq!(pod["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!(pod["metadata"].get("uid"), None, "it is no object of the store");
    let of =
        |name: &str, cpu: &str, memory: &str| json!({"name": name, "usage": {"cpu": cpu, "memory": memory}});
    let expected = json!([
        // What was counted before it began anew is not taken off.
        of("old", "100000000n", "9216Ki"),
        of("same", "500000000n", "10240Ki"),
        of("new", "10000000n", "3072Ki"),
    ]);
    assert_eq!(pod["containers"], expected);
    assert_eq!(of_pod(&object("q", Value::Null), &window(), at), None);
}

#[test]
fn a_node_is_silent_when_nothing_is_heard_of_it() {
    for (status, expected) in [("True", false), ("False", false), ("Unknown", true)] {
        let conditions =
            json!([{"type": "DiskPressure", "status": "Unknown"}, {"type": "Ready", "status": status}]);
        assert_eq!(is_silent(&object("n", json!({"conditions": conditions}))), expected, "{status}");
    }
    assert!(!is_silent(&object("n", Value::Null)));
}

#[tokio::test(start_paused = true)]
async fn a_node_is_asked_twice_then_once_and_not_again_for_a_while() {
    let (asked, times) = (Asked::default(), Cell::new(0));
    let ask = || async {
        times.set(times.get() + 1);
        Ok(counts(part("", "boot", f64::from(times.get()), 1), &[]))
    };
    let look = async |after: u64, expected: i32, lasts: u64| {
        tokio::time::advance(Duration::from_secs(after)).await;
        let window = asked.window(ask).await.unwrap();
        assert_eq!((times.get(), window.lasts.as_secs()), (expected, lasts), "after {after} s");
    };
    look(0, 2, 1).await;
    look(9, 2, 1).await;
    look(11, 3, 20).await;
    look(30, 4, 30).await;
    assert!(asked.is_of_use());
    look(61, 6, 1).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(!asked.is_of_use());
    // Nor is one that does not say it.
    let refuse = || async {
        times.set(times.get() + 1);
        Err("no".to_owned())
    };
    for expected in [7, 7] {
        assert_eq!(asked.window(refuse).await.unwrap_err(), "no");
        assert_eq!(times.get(), expected);
    }
    tokio::time::advance(Duration::from_secs(10)).await;
    look(0, 9, 1).await;
}

#[test]
fn a_stock_kubelet_says_null_of_what_it_knows_nothing_of() {
    let said = json!({
        "node": {"cpu": null, "startTime": null},
        "pods": [{"podRef": {"name": "p", "namespace": "shop"}, "containers": null}],
    });
    let counts: Arc<Counts> = Arc::new(serde_json::from_value(said).unwrap());
    let window = Window { before: counts.clone(), now: counts, lasts: Duration::from_secs(1) };
    let node = of_node(&object("n", Value::Null), &window, Timestamp::UNIX_EPOCH);
    assert_eq!(node["usage"], json!({"cpu": "0n", "memory": "0Ki"}));
    assert_eq!(of_pod(&object("p", Value::Null), &window, Timestamp::UNIX_EPOCH), None);
}
