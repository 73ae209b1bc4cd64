//! Test fixtures: functions that create clusters, nodes and pods.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::node::Node;
use super::pod::Pod;
use super::preempt::{Budgets, PreemptionResult, find_candidates};
use super::schedule_one::{FitError, Rotation};

/// Decodes an object of the API.
pub fn decoded<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

/// Creates a node with 4 cores, 8 GiB and the given fields of `spec`, in a zone.
pub fn node_with(name: &str, zone: &str, spec: Value) -> Node {
    let node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": zone}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "10", "example.com/gpu": "1"}},
    });
    Node::of(decoded(node))
}

pub fn set_label(node: &mut Node, key: &str, value: &str) {
    node.labels = node.labels.iter().chain([(key, value)]).collect();
}

/// Creates a node with 4 cores and 8 GiB in a zone.
pub fn node(name: &str, zone: &str) -> Node {
    node_with(name, zone, json!({}))
}

/// Creates a cluster with nodes `a` and `b` in zone `x`, and `c` in zone `y`.
pub fn three_nodes() -> Cluster {
    let mut cluster = Cluster::default();
    for (name, zone) in [("a", "x"), ("b", "x"), ("c", "y")] {
        cluster.put_node(node(name, zone));
    }
    cluster.put_namespace("default", Some([("team", "one")].into_iter().collect()));
    cluster
}

/// Creates a pod of one container with the given requests, labels and fields of `spec`.
pub fn pod_with(name: &str, requests: Value, labels: Value, mut spec: Value) -> Pod {
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c", "image": "i", "resources": {"requests": requests}}]);
    }
    let metadata = json!({"name": name, "namespace": "default", "uid": name, "labels": labels});
    Pod::of(decoded(json!({"metadata": metadata, "spec": spec})))
}

/// Creates a pod with the given fields of `spec`.
pub fn pod(name: &str, spec: Value) -> Pod {
    pod_with(name, json!({}), json!({"app": "web"}), spec)
}

/// Adds the pod to the node.
pub fn put(cluster: &mut Cluster, pod: Pod, node: &str) {
    cluster.put_pod(Arc::new(pod), node, false);
}

/// Creates a required affinity term for pods of an app, over a topology key. `side` is `podAffinity` or
/// `podAntiAffinity`.
pub fn required_affinity(side: &str, app: &str, key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
    json!({"affinity": {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

/// Creates a topology spread constraint.
pub fn spread(key: &str, max_skew: i64, when: &str) -> Value {
    json!({"topologySpreadConstraints": [{"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "web"}}}]})
}

/// Looks for preemption candidates for an unschedulable pod.
pub fn find(
    cluster: &mut Cluster,
    pod: &Pod,
    fit_error: &FitError,
    budgets: &Budgets,
    rotation: &mut Rotation,
) -> PreemptionResult {
    find_candidates(cluster, pod, fit_error, budgets, rotation).map_or_else(|room| room, PreemptionResult::of)
}
