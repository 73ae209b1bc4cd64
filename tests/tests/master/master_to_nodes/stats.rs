//! Resource metrics of a node and its pods, through the master and from the node's own socket.

use serde_json::Value;
use tests::manifest::{container, pod};
use tests::{DEADLINE, kubectls, wait_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::master_to_nodes::bed::Cluster;

/// Uses CPU for a while and keeps some memory.
const BUSY: &str = "trap 'exit 0' TERM; x=$(head -c 4000000 /dev/zero | tr '\\0' x); i=0; \
                    while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done ${#x}; sleep 1000000 & wait";

/// Value of that metric.
fn series(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    let line = line.unwrap_or_else(|| panic!("{name} is not in\n{metrics}"));
    line[name.len()..].split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn stats_of_nodes_are_served_through_the_api_server() {
    let cluster = Cluster::new("stats").await;
    let manifest = pod("web", &format!("containers:\n- {}", container("main", BUSY, "")));
    let name = cluster.runs("web", &manifest).await;
    cluster.world.wait_for_log("web", "main", "done").await;
    let kubectl = kubectls().pop().unwrap();
    let get = async |path: &str| {
        let path = format!("/api/v1/nodes/{}/proxy/{path}", cluster.world.node);
        let output = cluster.kubectl(&kubectl, &["get", "--raw", &path]).await;
        assert_eq!(output.code, 0, "{output:?}");
        output.stdout
    };
    let metrics = get("metrics/resource").await;
    let of_container = format!("{{container=\"main\",namespace=\"default\",pod=\"{name}\"}}");
    let of_pod = format!("{{namespace=\"default\",pod=\"{name}\"}}");
    let mib = f64::from(1 << 20);
    for (series_name, at_least, at_most) in [
        (format!("container_cpu_usage_seconds_total{of_container}"), 0.05, 60.0),
        (format!("pod_cpu_usage_seconds_total{of_pod}"), 0.05, 60.0),
        (format!("container_memory_working_set_bytes{of_container}"), 3.0 * mib, 200.0 * mib),
        (format!("pod_memory_working_set_bytes{of_pod}"), 3.0 * mib, 200.0 * mib),
        (format!("container_start_time_seconds{of_container}"), 1.7e9, 1e11),
        ("node_cpu_usage_seconds_total".to_owned(), 1.0, 1e12),
        ("node_memory_working_set_bytes".to_owned(), mib, 1e15),
        ("resource_scrape_error".to_owned(), 0.0, 0.0),
    ] {
        let found = series(&metrics, &series_name);
        assert!((at_least..=at_most).contains(&found), "{series_name} is {found}");
    }

    let look = async || {
        let summary: Value = serde_json::from_str(&get("stats/summary").await).unwrap();
        // From the second response on, when a rate is available.
        let is_paced = summary.pointer("/node/cpu/usageNanoCores").is_some();
        if is_paced { Ok(summary) } else { Err(summary.to_string()) }
    };
    let summary = wait_until(DEADLINE, look).await.unwrap();
    assert_eq!(summary["node"]["nodeName"], cluster.world.node.as_str());
    assert!(summary["node"]["fs"]["capacityBytes"].as_u64().unwrap() > 0, "{summary}");
    let shown = &summary["pods"][0];
    assert_eq!(
        (&shown["podRef"]["name"], &shown["podRef"]["namespace"]),
        (&name.clone().into(), &"default".into())
    );
    let main = &shown["containers"][0];
    assert_eq!(main["name"], "main");
    assert!(main["cpu"]["usageCoreNanoSeconds"].as_u64().unwrap() > 50_000_000, "{main}");
    let (whole, part) = (&shown["memory"]["workingSetBytes"], &main["memory"]["workingSetBytes"]);
    assert!(part.as_u64().unwrap() > 3 << 20 && whole.as_u64() >= part.as_u64(), "{shown}");
    let less: Value = serde_json::from_str(&get("stats/summary?only_cpu_and_memory=true").await).unwrap();
    assert!(less["node"]["memory"].is_object() && less["node"]["fs"].is_null(), "{less}");

    let mut socket = UnixStream::connect(cluster.world.root_dir().join("kubelet.sock")).await.unwrap();
    let request = "GET /metrics/resource HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("text/plain; version=0.0.4") && answer.contains(&of_pod), "{answer}");
}
