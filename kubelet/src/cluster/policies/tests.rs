//! Tests of the informer of policies.

use client::Delta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::snapshot::Informer;

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn policy(name: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "resourceVersion": "1"},
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80, "endPort": 90}, {"port": "web"}]}]}})
}

fn pod(name: &str, spec: Value, status: Value) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "labels": {"app": name}}, "spec": spec, "status": status})
}

/// An informer with a policy, a namespace and a pod.
pub fn informer() -> Informer {
    let mut informer = Informer::default();
    informer.apply_policies(Delta::Replaced(vec![object(policy("one"))], "1".to_owned()));
    let namespace = json!({"metadata": {"name": "shop", "labels": {"team": "a"}}});
    informer.apply_namespaces(Delta::Replaced(vec![object(namespace)], "1".to_owned()));
    let ports = json!([{"name": "web", "containerPort": 8080}, {"containerPort": 9}]);
    let spec = json!({"nodeName": "n1", "containers": [{"ports": ports}]});
    let status =
        json!({"phase": "Running", "podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]});
    informer.apply_pods(Delta::Replaced(vec![object(pod("web", spec, status))], "1".to_owned()));
    informer
}

#[test]
fn an_informer_keeps_the_fields_that_policies_depend_on() {
    let snapshot = informer().snapshot();
    assert!(snapshot.is_known && !snapshot.is_forbidden);
    assert_eq!(snapshot.namespaces["shop"]["team"], "a");
    let peer = &snapshot.peers.values().next().unwrap();
    assert_eq!((peer.node.as_str(), peer.pod.addresses.len(), peer.pod.ports.len()), ("n1", 2, 1));
    assert_eq!(peer.pod.ports[0].number, 8080);
    assert_eq!(snapshot.policies.values().next().unwrap().name, "one");
}

#[test]
fn pods_without_an_own_address_are_no_peers() {
    let running = json!({"phase": "Running", "podIP": "10.0.0.3"});
    for (spec, status) in [
        (json!({"hostNetwork": true}), running.clone()),
        (json!({}), json!({"phase": "Succeeded", "podIP": "10.0.0.3"})),
        (json!({}), json!({"phase": "Failed", "podIP": "10.0.0.3"})),
        (json!({}), json!({"phase": "Pending"})),
    ] {
        let mut informer = informer();
        informer.apply_pods(Delta::Applied(object(pod("other", json!({}), running.clone()))));
        assert_eq!(informer.snapshot().peers.len(), 2);
        informer.apply_pods(Delta::Applied(object(pod("other", spec.clone(), status.clone()))));
        assert_eq!(informer.snapshot().peers.len(), 1, "{spec} {status}");
    }
}

#[test]
fn a_stored_snapshot_counts_until_the_first_list() {
    let stored = informer().snapshot();
    let mut informer = Informer::default();
    informer.forbid();
    informer.restore(&stored);
    assert_eq!(informer.snapshot(), stored);
    informer.apply_policies(Delta::Replaced(vec![object(policy("two"))], "2".to_owned()));
    let snapshot = informer.snapshot();
    assert_eq!(snapshot.policies.values().next().unwrap().name, "two");
    assert_eq!(snapshot.peers, stored.peers, "pods have not been listed yet");
    informer.restore(&stored);
    assert_eq!(informer.snapshot(), snapshot, "the answer of the API server wins");
    informer.forget_pods();
    informer.forget_namespaces();
    assert!(informer.snapshot().peers.is_empty() && informer.snapshot().namespaces.is_empty());
}
