//! Tests of which updates are heartbeats.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use crate::strategy::{Json, of};

fn lease() -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "a", "namespace": "kube-node-lease", "uid": "1", "resourceVersion": "7",
        },
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"},
    })
}

fn node() -> Value {
    let condition = |kind: &str| {
        json!({"type": kind, "status": "False", "reason": "Fine", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"a": "b"}, "resourceVersion": "7"},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"conditions": [condition("MemoryPressure"), condition("Ready")], "images": [{"names": ["x"]}]},
    })
}

/// Whether an update that sets these values, or removes null ones, is a heartbeat.
fn is_heartbeat(before: &Value, changes: &[(&str, Value)]) -> bool {
    let mut after = before.clone();
    for (pointer, value) in changes {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match (after.pointer_mut(parent).unwrap(), value) {
            (Value::Object(map), Value::Null) => drop(map.remove(name)),
            (Value::Object(map), value) => drop(map.insert(name.to_owned(), value.clone())),
            (Value::Array(list), value) if name == "-" => list.push(value.clone()),
            (Value::Array(list), value) => list[name.parse::<usize>().unwrap()] = value.clone(),
            (other, _) => panic!("{pointer} is in {other}"),
        }
    }
    let map = |value: &Value| -> Json { value.as_object().unwrap().clone() };
    let group = if before["kind"] == "Lease" { "coordination.k8s.io" } else { "" };
    of(group, before["kind"].as_str().unwrap()).is_heartbeat(&map(before), &map(&after))
}

#[test]
fn a_lease_of_a_node_that_is_renewed() {
    let later = json!("2026-01-01T00:00:10.000000Z");
    let renewed = ("/spec/renewTime", later.clone());
    assert!(is_heartbeat(&lease(), std::slice::from_ref(&renewed)));
    assert!(is_heartbeat(&lease(), &[renewed.clone(), ("/metadata/resourceVersion", Value::Null),]));
    for (what, value) in [
        ("/spec/holderIdentity", json!("b")),
        ("/spec/leaseDurationSeconds", json!(50)),
        ("/spec/acquireTime", later.clone()),
        ("/spec/leaseDurationSeconds", Value::Null),
        ("/spec/renewTime", Value::Null),
        ("/metadata/labels", json!({"a": "b"})),
        ("/metadata/finalizers", json!(["a"])),
        ("/metadata/deletionTimestamp", later.clone()),
    ] {
        assert!(!is_heartbeat(&lease(), &[renewed.clone(), (what, value)]), "{what}");
    }
    let mut elected = lease();
    elected["metadata"]["namespace"] = "kube-system".into();
    assert!(!is_heartbeat(&elected, &[renewed]), "who leads is decided by it");
}

#[test]
fn unchanged_node_status_is_a_heartbeat() {
    let later = json!("2026-01-01T00:05:00Z");
    let beat = ("/status/conditions/1/lastHeartbeatTime", later.clone());
    assert!(is_heartbeat(&node(), std::slice::from_ref(&beat)));
    assert!(is_heartbeat(
        &node(),
        &[beat.clone(), ("/status/conditions/0/lastHeartbeatTime", later.clone())]
    ));
    for (what, value) in [
        ("/status/conditions/1/status", json!("True")),
        ("/status/conditions/1/reason", json!("Else")),
        ("/status/conditions/1/lastTransitionTime", later.clone()),
        ("/status/conditions/-", json!({"type": "DiskPressure"})),
        ("/status/conditions/0", json!({"type": "Ready"})),
        ("/status/images", json!([])),
        ("/status/conditions", Value::Null),
        ("/spec/unschedulable", json!(true)),
        ("/metadata/annotations", json!({"a": "b"})),
    ] {
        assert!(!is_heartbeat(&node(), &[beat.clone(), (what, value)]), "{what}");
    }
}

#[test]
fn other_kinds_are_not_heartbeats() {
    let mut map = lease();
    (map["apiVersion"], map["kind"]) = ("v1".into(), "ConfigMap".into());
    assert!(!is_heartbeat(&map, &[("/spec/renewTime", json!("2026-01-01T00:00:10.000000Z"))]));
}
