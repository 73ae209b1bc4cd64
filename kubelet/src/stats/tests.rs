//! Resource usage of containers, pods and the node.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn used(cpu_nanoseconds: u64, working_set_bytes: u64) -> ResourceUsage {
    let counted = CgroupStats { cpu_nanoseconds, working_set_bytes, ..CgroupStats::default() };
    ResourceUsage { counted, nanocores: None }
}

fn usage() -> Usage {
    let container = ContainerUsage {
        name: "c".to_owned(),
        started_at: at(50),
        used: used(1_500_000_000, 70),
        processes: 1,
    };
    let pod = PodUsage {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        uid: "u1".to_owned(),
        started_at: at(40),
        used: used(2_000_000_000, 90),
        containers: vec![container],
    };
    let node = NodeUsage { used: used(9, 400), memory_bytes: 1000, started_at: at(0), disk: None };
    Usage { at: at(100), node, pods: vec![pod], is_incomplete: false }
}

#[test]
fn metrics_have_the_stock_names() {
    let text = resource::text(Some(&usage()));
    for line in [
        "# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the node in core-seconds",
        "# TYPE node_cpu_usage_seconds_total counter",
        "node_cpu_usage_seconds_total 0.000000009 100000",
        "node_memory_working_set_bytes 400 100000",
        "container_cpu_usage_seconds_total{container=\"c\",namespace=\"shop\",pod=\"web\"} 1.500000000 100000",
        "container_memory_working_set_bytes{container=\"c\",namespace=\"shop\",pod=\"web\"} 70 100000",
        "container_start_time_seconds{container=\"c\",namespace=\"shop\",pod=\"web\"} 50.000",
        "pod_cpu_usage_seconds_total{namespace=\"shop\",pod=\"web\"} 2.000000000 100000",
        "pod_memory_working_set_bytes{namespace=\"shop\",pod=\"web\"} 90 100000",
        "resource_scrape_error 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let lame = Usage { is_incomplete: true, ..usage() };
    assert!(resource::text(Some(&lame)).ends_with("\nresource_scrape_error 1\n"));
    assert!(resource::text(None).ends_with("resource_scrape_error 1\n"));
}

#[test]
fn a_summary_has_the_stock_fields() {
    let found = summary::summary("n1", &usage(), false);
    assert_eq!(found["node"]["nodeName"], "n1");
    assert_eq!(found["node"]["memory"]["availableBytes"], 600);
    let pod = &found["pods"][0];
    assert_eq!(pod["podRef"], json!({"name": "web", "namespace": "shop", "uid": "u1"}));
    assert_eq!(pod["memory"]["workingSetBytes"], 90);
    let container = &pod["containers"][0];
    assert_eq!((&container["name"], &container["startTime"]), (&json!("c"), &json!("1970-01-01T00:00:50Z")));
    assert_eq!(
        container["cpu"],
        json!({"time": "1970-01-01T00:01:40Z", "usageCoreNanoSeconds": 1_500_000_000})
    );
}

#[test]
fn cpu_rates_need_two_samples() {
    let first = CpuSample { at: at(100), cpu_nanoseconds: 1_000_000_000, nanocores: None };
    let then = first.next(at(110), 6_000_000_000);
    assert_eq!(then.nanocores, Some(500_000_000));
    assert_eq!(then.next(at(110), 7_000_000_000), then, "too soon to say anything new");
    assert_eq!(then.next(at(120), 6_000_000_000).nanocores, Some(0));
}
