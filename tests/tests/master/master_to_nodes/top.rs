//! `kubectl top`: the master collects the metrics from the nodes.

use serde_json::{Value, json};
use tests::kubectls;
use tests::manifest::{container, pod};

use crate::master_to_nodes::bed::Cluster;

/// Uses a full CPU and keeps some memory.
const BUSY: &str = "trap 'exit 0' TERM; x=$(head -c 8000000 /dev/zero | tr '\\0' x); while :; do :; done";
const QUIET: &str = "trap 'exit 0' TERM; sleep 1000000 & wait";

/// The columns of the line that starts with that name.
fn line<'a>(printed: &'a str, name: &str) -> Vec<&'a str> {
    let line = printed.lines().find(|line| line.split_whitespace().any(|word| word == name));
    line.unwrap_or_else(|| panic!("no {name} in\n{printed}")).split_whitespace().collect()
}

/// The number before the unit.
fn number(word: &str, unit: &str) -> u64 {
    word.strip_suffix(unit)
        .and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("{word} is no {unit}"))
}

#[tokio::test]
async fn kubectl_top_shows_the_usage_of_nodes_and_pods() {
    let cluster = Cluster::new("top").await;
    let node = cluster.world.node.clone();
    let spec = format!("containers:\n- {}\n- {}", container("busy", BUSY, ""), container("quiet", QUIET, ""));
    let name = cluster.runs("web", &pod("web", &spec)).await;
    // A pod that does not run, and an unreachable node.
    cluster.has_pod("not-yet", json!({"containers": [{"name": "c", "image": "i"}]}), &json!({})).await;
    let silent = json!({"conditions": [{"type": "Ready", "status": "Unknown"}]});
    let (code, printed) = cluster
        .sends(
            "POST",
            "/api/v1/nodes",
            "application/json",
            &json!({"metadata": {"name": "silent"}, "status": silent}),
        )
        .await;
    assert_eq!(code, 201, "{printed}");
    let amounts = json!({"status": {"allocatable": {"cpu": "2", "memory": "8Gi"}}});
    let path = format!("/api/v1/nodes/{node}/status");
    assert_eq!(cluster.sends("PATCH", &path, "application/merge-patch+json", &amounts).await.0, 200);

    for kubectl in kubectls() {
        let ran = async |arguments: &[&str]| {
            let output = cluster.kubectl(&kubectl, arguments).await;
            assert_eq!(output.code, 0, "1.{} {arguments:?}: {output:?}", kubectl.minor);
            output.stdout
        };
        let nodes = ran(&["top", "nodes"]).await;
        let of_node = line(&nodes, &node);
        assert!(number(of_node[1], "m") > 50 && number(of_node[3], "Mi") > 50, "{nodes}");
        assert!(of_node[2].ends_with('%') && of_node[4].ends_with('%'), "{nodes}");
        let pods = ran(&["top", "pods"]).await;
        let of_pod = line(&pods, &name);
        assert!(number(of_pod[1], "m") > 50 && number(of_pod[2], "Mi") >= 7, "{pods}");
        assert!(!pods.contains("not-yet"), "{pods}");
        let containers = ran(&["top", "pod", &name, "--containers"]).await;
        let (busy, quiet) = (line(&containers, "busy"), line(&containers, "quiet"));
        assert!(number(busy[2], "m") > 10 * number(quiet[2], "m"), "{containers}");
        assert!(line(&ran(&["top", "pods", "-A"]).await, &name)[0] == "default");
    }

    let kubectl = kubectls().pop().unwrap();
    let ran = async |arguments: &[&str]| cluster.kubectl(&kubectl, arguments).await;
    let table = ran(&["get", "nodes.metrics.k8s.io"]).await.stdout;
    assert!(table.starts_with("NAME") && table.contains("WINDOW") && table.contains(&node), "{table}");
    let json: Value = serde_json::from_str(
        &ran(&["get", "pods.metrics.k8s.io", &name, "-o", "json", "-n", "default"]).await.stdout,
    )
    .unwrap();
    assert_eq!(
        (&json["kind"], &json["containers"][0]["name"]),
        (&json!("PodMetrics"), &json!("busy")),
        "{json}"
    );
    let none = ran(&["get", "pods.metrics.k8s.io", "-l", "app=none"]).await;
    assert!(none.stderr.contains("No resources found"), "{none:?}");
    let missing = ran(&["get", "nodes.metrics.k8s.io", "silent"]).await;
    assert!(missing.stderr.contains("nodes.metrics.k8s.io \"silent\" not found"), "{missing:?}");
    let explained =
        ran(&["explain", "podmetrics.containers.usage", "--api-version", "metrics.k8s.io/v1beta1"]).await;
    assert!(explained.stdout.contains("memory usage"), "{explained:?}");
    let watched = ran(&["get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes?watch=true"]).await;
    assert!(
        watched.stderr.contains("MethodNotAllowed") || watched.stderr.contains("does not allow"),
        "{watched:?}"
    );
    // A user who may view a namespace sees the metrics of its pods, but not of nodes.
    ran(&["create", "rolebinding", "viewer", "--clusterrole=view", "--user=joe"]).await;
    assert_eq!(ran(&["auth", "can-i", "list", "pods.metrics.k8s.io", "--as=joe"]).await.stdout.trim(), "yes");
    let refused = ran(&["top", "nodes", "--as=joe"]).await;
    assert!(refused.stderr.contains("cannot list resource \"nodes\" in API group"), "{refused:?}");
}
