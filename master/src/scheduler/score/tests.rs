//! Tests of the score plugins: the scores of nodes `a`, `b` and `c`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use super::*;
use crate::scheduler::fixtures::{node, node_with, pod, pod_with, put, spread, three_nodes};

const ALL: [NodeId; 3] = [0, 1, 2];

fn check(plugin: ScorePlugin, cluster: &mut Cluster, pod: &Pod, expected: Option<[i64; 3]>) {
    cluster.count_terms_of(pod);
    assert_eq!(plugin(cluster, pod, &ALL), expected.map(Vec::from), "{pod:?}");
}

/// PodTopologySpread with the pod's own constraints.
fn own_spread(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    pod_topology_spread::scores(cluster, pod, &[], nodes)
}

fn asking(name: &str, requests: Value) -> Pod {
    pod_with(name, requests, json!({}), json!({}))
}

#[test]
fn resource_scores_follow_free_resources_and_balance() {
    let mut cluster = three_nodes();
    put(&mut cluster, asking("1", json!({"cpu": "2", "memory": "4Gi"})), "a");
    put(&mut cluster, asking("2", json!({"cpu": "2", "memory": "1Gi"})), "b");
    let requesting = asking("p", json!({"cpu": "1", "memory": "2Gi"}));
    check(node_resources::least_allocated, &mut cluster, &requesting, Some([25, 43, 75]));
    check(node_resources::most_allocated, &mut cluster, &requesting, Some([75, 56, 25]));
    check(node_resources::balanced, &mut cluster, &requesting, Some([100, 81, 100]));
    check(node_resources::balanced, &mut cluster, &asking("p", json!({})), None);
    // A container without requests counts as 100m of 4 cores and 200Mi of 8Gi.
    check(node_resources::least_allocated, &mut three_nodes(), &asking("p", json!({})), Some([97, 97, 97]));
}

#[test]
fn score_prefers_nodes_with_fewer_intolerable_taints() {
    let mut cluster = three_nodes();
    let taint = |key: &str| json!({"key": key, "effect": "PreferNoSchedule"});
    check(taint_toleration, &mut cluster, &pod("p", json!({})), None);
    cluster.put_node(node_with("a", "x", json!({"taints": [taint("k"), taint("l")]})));
    cluster.put_node(node_with("b", "x", json!({"taints": [taint("k")]})));
    check(taint_toleration, &mut cluster, &pod("p", json!({})), Some([0, 50, 100]));
    let tolerates = json!({"tolerations": [{"key": "k", "operator": "Exists"}]});
    check(taint_toleration, &mut cluster, &pod("p", tolerates), Some([0, 100, 100]));
}

#[test]
fn score_prefers_nodes_of_the_preferred_node_affinity() {
    let prefers = |weight: i64, key: &str, value: &str| json!({"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}});
    let terms = json!([prefers(10, "zone", "x"), prefers(30, "kubernetes.io/hostname", "b")]);
    let spec =
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}});
    check(node_affinity, &mut three_nodes(), &pod("p", spec), Some([25, 100, 0]));
    check(node_affinity, &mut three_nodes(), &pod("p", json!({})), None);
}

#[test]
fn score_prefers_nodes_near_pods_with_affinity() {
    let preferred_affinity = |side: &str, weight: i64, app: &str| {
        let term =
            json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"});
        json!({"affinity": {side: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}}})
    };
    let mut cluster = three_nodes();
    put(&mut cluster, pod_with("1", json!({}), json!({"app": "db"}), json!({})), "a");
    put(&mut cluster, pod_with("2", json!({}), json!({"app": "db"}), json!({})), "b");
    put(&mut cluster, pod_with("3", json!({}), json!({"app": "db"}), json!({})), "b");
    check(inter_pod_affinity::scores, &mut cluster, &pod("p", json!({})), None);
    check(
        inter_pod_affinity::scores,
        &mut cluster,
        &pod("p", preferred_affinity("podAffinity", 5, "db")),
        Some([50, 100, 0]),
    );
    check(
        inter_pod_affinity::scores,
        &mut cluster,
        &pod("p", preferred_affinity("podAntiAffinity", 5, "db")),
        Some([50, 0, 100]),
    );
    // Preferences of existing pods count too.
    put(
        &mut cluster,
        pod_with("4", json!({}), json!({"app": "x"}), preferred_affinity("podAffinity", 5, "web")),
        "c",
    );
    check(inter_pod_affinity::scores, &mut cluster, &pod("p", json!({})), Some([0, 0, 100]));
}

#[test]
fn score_prefers_topology_domains_with_fewer_matching_pods() {
    let mut cluster = three_nodes();
    put(&mut cluster, pod("1", json!({})), "a");
    put(&mut cluster, pod("2", json!({})), "a");
    put(&mut cluster, pod("3", json!({})), "c");
    check(own_spread, &mut cluster, &pod("p", spread("zone", 1, "DoNotSchedule")), None);
    check(own_spread, &mut cluster, &pod("p", spread("zone", 1, "ScheduleAnyway")), Some([33, 33, 100]));
    let by_node = spread("kubernetes.io/hostname", 1, "ScheduleAnyway");
    check(own_spread, &mut cluster, &pod("p", by_node), Some([0, 100, 33]));
}

#[test]
fn score_prefers_nodes_that_have_the_images() {
    let holding = |name: &str, size: i64| {
        let mut node = node(name, "x");
        node.images.insert("i:latest".to_owned(), size);
        node
    };
    let mut cluster = three_nodes();
    check(image_locality, &mut cluster, &pod("p", json!({"containers": [{"image": "i"}]})), None);
    cluster.put_node(holding("a", 900 * 1024 * 1024));
    cluster.put_node(holding("b", 30 * 1024 * 1024));
    check(image_locality, &mut cluster, &pod("p", json!({"containers": [{"image": "i"}]})), Some([59, 0, 0]));
}

#[test]
fn total_score_is_the_weighted_sum_of_all_plugins() {
    let mut cluster = three_nodes();
    put(&mut cluster, asking("1", json!({"cpu": "2", "memory": "4Gi"})), "a");
    let scores =
        scores(&cluster, &asking("p", json!({"cpu": "1", "memory": "2Gi"})), &Scoring::default(), &ALL);
    assert_eq!(scores, [125, 175, 175]);
}
