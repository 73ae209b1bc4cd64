//! Clusters and pods for tests, as people write them.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::node::Node;
use super::place::{Refusal, Turn};
use super::pod::{self, Pod};
use super::preempt::{Budgets, Room, candidates};
use crate::controllers::{Json, Sieve};

/// A node of four cores and 8 GiB in that zone, with these fields of `spec`.
pub fn node_with(name: &str, zone: &str, spec: Value) -> Node {
    let node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": zone}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "10", "example.com/gpu": "1"}},
    });
    Node::of(node.as_object().unwrap())
}

/// The same without more.
pub fn node(name: &str, zone: &str) -> Node {
    node_with(name, zone, json!({}))
}

/// A cluster of nodes `a` and `b` in zone `x`, and `c` in zone `y`.
pub fn three() -> Cluster {
    let mut cluster = Cluster::default();
    for (name, zone) in [("a", "x"), ("b", "x"), ("c", "y")] {
        cluster.put_node(node(name, zone));
    }
    cluster.put_namespace("default", Some([("team".to_owned(), "one".to_owned())].into()));
    cluster
}

/// What of a Pod the scheduler reads.
pub fn as_read(pod: &Value) -> Json {
    let sieve = pod::FIELDS.iter().copied().fold(Sieve::nothing(), Sieve::with);
    let Value::Object(read) = sieve.read(pod.to_string().as_bytes()).unwrap() else { return Json::new() };
    read
}

/// A pod of one container with these requests, labels and fields of `spec`.
pub fn pod_with(name: &str, requests: Value, labels: Value, mut spec: Value) -> Pod {
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c", "image": "i", "resources": {"requests": requests}}]);
    }
    let metadata = json!({"name": name, "namespace": "default", "uid": name, "labels": labels});
    Pod::of(json!({"metadata": metadata, "spec": spec}).as_object().unwrap())
}

/// A pod with these fields of `spec`.
pub fn pod(name: &str, spec: Value) -> Pod {
    pod_with(name, json!({}), json!({"app": "web"}), spec)
}

/// Puts it on that node.
pub fn put(cluster: &mut Cluster, pod: Pod, node: &str) {
    cluster.put_pod(Arc::new(pod), node, false);
}

/// An affinity of that kind to pods of an app over a label of nodes.
pub fn near(side: &str, app: &str, key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
    json!({"affinity": {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

/// A constraint over a label of nodes.
pub fn spread(key: &str, max_skew: i64, when: &str) -> Value {
    json!({"topologySpreadConstraints": [{"maxSkew": max_skew, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "web"}}}]})
}

/// Looks for room for a pod that was refused.
pub fn find(cluster: &mut Cluster, pod: &Pod, refusal: &Refusal, budgets: &Budgets, turn: &mut Turn) -> Room {
    candidates(cluster, pod, refusal, budgets, turn).map_or_else(|room| room, Room::of)
}
