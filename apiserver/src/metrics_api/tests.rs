//! Tests of the usage between two samples.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::sampler::NodeSampler;
use super::summary::{Counts, Subject, Window, node_metrics_object, pod_metrics_object};

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

fn metadata(name: &str) -> Subject {
    serde_json::from_value(json!({"name": name, "namespace": "shop", "labels": {"app": "x"}, "uid": "u"}))
        .unwrap()
}

fn window() -> Window {
    let before =
        counts(part("", "boot", 100.0, 100), &[part("old", "then", 5.0, 8), part("same", "then", 1.0, 8)]);
    let now = counts(
        part("", "boot", 103.0, 120),
        &[part("old", "later", 0.2, 9), part("same", "then", 2.0, 10), part("new", "later", 0.02, 3)],
    );
    let end = Timestamp::from_second(1_000_000_000).unwrap();
    Window { before: Arc::new(before), now: Arc::new(now), duration: Duration::from_millis(2000), end }
}

#[test]
fn usage_is_the_difference_between_two_samples() {
    let node = node_metrics_object(&metadata("n"), &window());
    assert_eq!(node["usage"], json!({"cpu": "1500000000n", "memory": "122880Ki"}));
    assert_eq!((&node["timestamp"], &node["window"]), (&json!("2001-09-09T01:46:40Z"), &json!("2.000s")));
    let pod = pod_metrics_object(&metadata("p"), &window()).unwrap();
    assert_eq!(pod["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!(pod["metadata"].get("uid"), None, "it is no object of the store");
    let of =
        |name: &str, cpu: &str, memory: &str| json!({"name": name, "usage": {"cpu": cpu, "memory": memory}});
    let expected = json!([
        // Counters of before a restart are not subtracted.
        of("old", "100000000n", "9216Ki"),
        of("same", "500000000n", "10240Ki"),
        of("new", "10000000n", "3072Ki"),
    ]);
    assert_eq!(pod["containers"], expected);
    assert_eq!(pod_metrics_object(&metadata("q"), &window()), None);
}

#[tokio::test(start_paused = true)]
async fn a_node_is_sampled_twice_at_first_and_then_at_most_every_few_seconds() {
    let (node_sampler, times) = (NodeSampler::default(), Cell::new(0));
    let fetch = || async {
        times.set(times.get() + 1);
        Ok(counts(part("", "boot", f64::from(times.get()), 1), &[]))
    };
    let sample = async |after: u64, expected: i32, duration: u64| {
        tokio::time::advance(Duration::from_secs(after)).await;
        let window = node_sampler.window(fetch).await.unwrap();
        assert_eq!((times.get(), window.duration.as_secs()), (expected, duration), "after {after} s");
    };
    sample(0, 2, 1).await;
    sample(9, 2, 1).await;
    sample(11, 3, 20).await;
    sample(30, 4, 30).await;
    assert!(node_sampler.is_usable());
    sample(61, 6, 1).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(!node_sampler.is_usable());
    // Errors are cached too.
    let refuse = || async {
        times.set(times.get() + 1);
        Err("no".to_owned())
    };
    for expected in [7, 7] {
        assert_eq!(node_sampler.window(refuse).await.unwrap_err(), "no");
        assert_eq!(times.get(), expected);
    }
    tokio::time::advance(Duration::from_secs(10)).await;
    sample(0, 9, 1).await;
}

#[test]
fn null_values_of_a_stock_kubelet_are_zero() {
    let result = json!({
        "node": {"cpu": null, "startTime": null},
        "pods": [{"podRef": {"name": "p", "namespace": "shop"}, "containers": null}],
    });
    let counts: Arc<Counts> = Arc::new(serde_json::from_value(result).unwrap());
    let window = Window { before: counts.clone(), now: counts, ..window() };
    let node = node_metrics_object(&metadata("n"), &window);
    assert_eq!(node["usage"], json!({"cpu": "0n", "memory": "0Ki"}));
    assert_eq!(pod_metrics_object(&metadata("p"), &window), None);
}
