//! Tests of the filters: the messages of nodes `a`, `b` and `c`, `-` if the pod fits.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{PreFilterState, TopologyPairCounts};
use crate::scheduler::cluster::Cluster;
use crate::scheduler::fixtures::{node_with, pod, pod_with, put, required_affinity, spread, three_nodes};
use crate::scheduler::node::{Node, NodeInfo};
use crate::scheduler::pod::Pod;

/// The message of every node, in order.
fn reasons(cluster: &mut Cluster, pod: &Pod) -> Vec<String> {
    cluster.count_terms_of(pod);
    let prepared = PreFilterState::of(cluster, pod);
    let words = |node_info: &NodeInfo, node: &Node| match prepared.filter(node_info, node) {
        None => "-".to_owned(),
        Some(reason) => reason.iter().map(super::Reason::message).collect::<Vec<_>>().join(" + "),
    };
    cluster.nodes().map(|(_, node_info, node)| words(node_info, node)).collect()
}

fn check(cluster: &mut Cluster, pod: &Pod, expected: [&str; 3]) {
    assert_eq!(reasons(cluster, pod), expected, "{pod:?}");
}

const OK: [&str; 3] = ["-", "-", "-"];

#[test]
fn cordoned_node_rejects_pods_without_toleration() {
    let mut cluster = three_nodes();
    cluster.put_node(node_with("b", "x", json!({"unschedulable": true})));
    check(&mut cluster, &pod("p", json!({})), ["-", "node(s) were unschedulable", "-"]);
    let tolerates =
        json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]});
    check(&mut cluster, &pod("p", tolerates), OK);
}

#[test]
fn node_name_restricts_the_pod_to_that_node() {
    let other = "node(s) didn't match the requested node name";
    check(&mut three_nodes(), &pod("p", json!({"nodeName": "b"})), [other, "-", other]);
}

#[test]
fn taints_reject_pods_without_toleration() {
    let mut cluster = three_nodes();
    let taint = |effect: &str| json!({"taints": [{"key": "k", "value": "v", "effect": effect}]});
    cluster.put_node(node_with("a", "x", taint("NoSchedule")));
    cluster.put_node(node_with("b", "x", taint("NoExecute")));
    cluster.put_node(node_with("c", "y", taint("PreferNoSchedule")));
    let tainted = "node(s) had untolerated taint {k: v}";
    for (toleration, expected) in [
        (json!({"key": "other", "operator": "Exists"}), [tainted, tainted, "-"]),
        (json!({"key": "k", "operator": "Exists"}), OK),
        (json!({"operator": "Exists"}), OK),
        (json!({"key": "k", "value": "v"}), OK),
        (json!({"key": "k", "operator": "Equal", "value": "w"}), [tainted, tainted, "-"]),
        (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), [tainted, "-", "-"]),
    ] {
        check(&mut cluster, &pod("p", json!({"tolerations": [toleration]})), expected);
    }
}

#[test]
fn node_affinity_selects_matching_nodes() {
    let other = "node(s) didn't match Pod's node affinity/selector";
    let affinity = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    let labels = |operator: &str, values: Value| {
        affinity(json!([{"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}]))
    };
    for (spec, expected) in [
        (json!({"nodeSelector": {"zone": "y"}}), [other, other, "-"]),
        (labels("In", json!(["x"])), ["-", "-", other]),
        (labels("NotIn", json!(["x"])), [other, other, "-"]),
        (labels("Exists", json!(null)), OK),
        (affinity(json!([{}])), [other; 3]),
        (affinity(json!([])), [other; 3]),
        (
            affinity(json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]},
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y"]}]}])),
            [other, "-", "-"],
        ),
    ] {
        check(&mut three_nodes(), &pod("p", spec), expected);
    }
}

#[test]
fn host_port_is_used_by_one_pod() {
    let port = |protocol: &str, address: Option<&str>| {
        let address = address.unwrap_or_default();
        pod(
            "p",
            json!({"containers": [{"ports": [{"hostPort": 80, "protocol": protocol, "hostIP": address}]}]}),
        )
    };
    let mut cluster = three_nodes();
    let taken = |mut pod: Pod, name: &str| {
        pod.uid = name.to_owned();
        pod
    };
    put(&mut cluster, taken(port("TCP", None), "1"), "a");
    put(&mut cluster, taken(port("TCP", Some("10.0.0.1")), "2"), "b");
    let none = "node(s) didn't have free ports for the requested pod ports";
    check(&mut cluster, &port("TCP", None), [none, none, "-"]);
    check(&mut cluster, &port("UDP", None), OK);
    check(&mut cluster, &port("TCP", Some("10.0.0.2")), [none, "-", "-"]);
    cluster.remove_pod("1");
    check(&mut cluster, &port("TCP", None), ["-", none, "-"]);
}

#[test]
fn node_resources_fit_rejects_pods_above_the_allocatable() {
    let mut cluster = three_nodes();
    let asking = |name: &str, requests: Value| pod_with(name, requests, json!({}), json!({}));
    put(&mut cluster, asking("1", json!({"cpu": "3", "example.com/gpu": 1})), "a");
    put(&mut cluster, asking("2", json!({"memory": "6Gi", "ephemeral-storage": "8Gi"})), "b");
    (0..10).for_each(|count| put(&mut cluster, asking(&format!("c{count}"), json!({})), "c"));
    let full = "Too many pods";
    for (requests, expected) in [
        (json!({}), ["-", "-", full]),
        (json!({"cpu": "1"}), ["-", "-", full]),
        (json!({"cpu": "1001m"}), ["Insufficient cpu", "-", full]),
        (json!({"cpu": "2", "memory": "3Gi"}), ["Insufficient cpu", "Insufficient memory", full]),
        (json!({"ephemeral-storage": "3Gi"}), ["-", "Insufficient ephemeral-storage", full]),
        (json!({"example.com/gpu": 1}), ["Insufficient example.com/gpu", "-", full]),
        (
            json!({"example.com/fpga": 1}),
            [
                "Insufficient example.com/fpga",
                "Insufficient example.com/fpga",
                "Too many pods + Insufficient example.com/fpga",
            ],
        ),
    ] {
        check(&mut cluster, &asking("p", requests), expected);
    }
    // Init containers run one after the other, and sidecars run beside them.
    let hungry = json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}], "overhead": {"cpu": "1"},
        "initContainers": [{"resources": {"requests": {"cpu": "3500m"}}}]});
    check(
        &mut cluster,
        &pod("p", hungry),
        ["Insufficient cpu", "Insufficient cpu", "Too many pods + Insufficient cpu"],
    );
}

#[test]
fn pod_affinity_and_anti_affinity_filter_nodes() {
    let (near_to, required_anti_affinity) = (
        |app, key| required_affinity("podAffinity", app, key),
        |app, key| required_affinity("podAntiAffinity", app, key),
    );
    let mut cluster = three_nodes();
    put(
        &mut cluster,
        pod_with("db", json!({}), json!({"app": "db"}), required_anti_affinity("cache", "zone")),
        "a",
    );
    let (alone, close) =
        ("node(s) didn't match pod affinity rules", "node(s) didn't match pod anti-affinity rules");
    for (spec, expected) in [
        (near_to("db", "kubernetes.io/hostname"), ["-", alone, alone]),
        (near_to("db", "zone"), ["-", "-", alone]),
        (near_to("none", "zone"), [alone; 3]),
        // The first pod of a group.
        (near_to("web", "zone"), OK),
        (near_to("web", "rack"), [alone; 3]),
        (required_anti_affinity("db", "kubernetes.io/hostname"), [close, "-", "-"]),
        (required_anti_affinity("db", "zone"), [close, close, "-"]),
        (required_anti_affinity("web", "zone"), OK),
    ] {
        check(&mut cluster, &pod("p", spec), expected);
    }
    let repelled = "node(s) didn't satisfy existing pods anti-affinity rules";
    let cache = pod_with("p", json!({}), json!({"app": "cache"}), json!({}));
    check(&mut cluster, &cache, [repelled, repelled, "-"]);
    // Changed node labels move the counts.
    cluster.put_node(node_with("a", "y", json!({})));
    check(&mut cluster, &cache, [repelled, "-", repelled]);
    cluster.remove_pod("db");
    check(&mut cluster, &cache, OK);
}

#[test]
fn affinity_selects_pods_by_namespace_labels() {
    let term = json!({"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone",
        "namespaceSelector": {"matchLabels": {"team": "two"}}});
    let requesting = pod(
        "p",
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}),
    );
    let mut cluster = three_nodes();
    put(&mut cluster, pod_with("db", json!({}), json!({"app": "db"}), json!({})), "a");
    check(&mut cluster, &requesting, OK);
    cluster.put_namespace("default", Some([("team", "two")].into_iter().collect()));
    let close = "node(s) didn't match pod anti-affinity rules";
    check(&mut cluster, &requesting, [close, close, "-"]);
}

#[test]
fn topology_spread_constraints_filter_zones() {
    let skew = "node(s) didn't match pod topology spread constraints";
    let mut cluster = three_nodes();
    let hard = |key: &str| pod("p", spread(key, 1, "DoNotSchedule"));
    check(&mut cluster, &hard("zone"), OK);
    put(&mut cluster, pod("1", json!({})), "a");
    check(&mut cluster, &hard("zone"), [skew, skew, "-"]);
    check(&mut cluster, &hard("kubernetes.io/hostname"), [skew, "-", "-"]);
    let missing = "node(s) didn't match pod topology spread constraints (missing required label)";
    check(&mut cluster, &hard("rack"), [missing; 3]);
    check(&mut cluster, &pod("p", spread("zone", 1, "ScheduleAnyway")), OK);
    put(&mut cluster, pod("2", json!({})), "c");
    check(&mut cluster, &hard("zone"), OK);
    // Only zones that the pod's node affinity allows count.
    let mut pinned = spread("zone", 1, "DoNotSchedule");
    pinned["nodeSelector"] = json!({"zone": "x"});
    put(&mut cluster, pod("3", json!({})), "b");
    check(&mut cluster, &pod("p", pinned), ["-", "-", "node(s) didn't match Pod's node affinity/selector"]);
    check(&mut cluster, &hard("zone"), [skew, skew, "-"]);
    // Fewer zones than `minDomains`: none may have more than one pod.
    let mut many = spread("zone", 1, "DoNotSchedule");
    many["topologySpreadConstraints"][0]["minDomains"] = 3.into();
    check(&mut cluster, &pod("p", many), [skew; 3]);
}

proptest! {
    #[test]
    fn cached_counts_stay_correct_without_the_pods_of_a_node(
        there in proptest::collection::vec((0_usize..3, any::<bool>()), 0..9),
        (node, key, max_skew, min_domains) in (0_usize..3, 0_usize..3, 1_i64..3, 1_i64..4),
        is_pinned in any::<bool>(),
    ) {
        let mut cluster = three_nodes();
        for (number, (node, is_web)) in there.iter().enumerate() {
            let labels = json!({"app": if *is_web { "web" } else { "db" }});
            put(&mut cluster, pod_with(&format!("p{number}"), json!({}), labels, json!({})), ["a", "b", "c"][*node]);
        }
        let mut spec = spread(["zone", "kubernetes.io/hostname", "rack"][key], max_skew, "DoNotSchedule");
        spec["topologySpreadConstraints"][0]["minDomains"] = min_domains.into();
        if is_pinned {
            spec["nodeSelector"] = json!({"zone": "x"});
        }
        let new = pod("new", spec);
        cluster.count_terms_of(&new);
        let stand = TopologyPairCounts::of(&cluster, &new);
        let (id, ..) = cluster.node_named(["a", "b", "c"][node]).unwrap();
        for (number, _) in there.iter().enumerate().filter(|(_, (on, _))| *on == node) {
            let on = PreFilterState::on(&cluster, &new, id, &stand).filter_at(&cluster, id);
            prop_assert_eq!(on, PreFilterState::of(&cluster, &new).filter_at(&cluster, id));
            cluster.take_pod(&format!("p{number}"));
        }
        let on = PreFilterState::on(&cluster, &new, id, &stand).filter_at(&cluster, id);
        prop_assert_eq!(on, PreFilterState::of(&cluster, &new).filter_at(&cluster, id));
    }
}
