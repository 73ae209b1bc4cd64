//! Tests of the informer of policies.

use client::Delta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::snapshot::Informer;
use super::{Demand, LIST_RETRY, MAX_FAST_RETRIES, PEERS_LINGER, SLOW_LIST_RETRY, list_retry, unneeded};

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
    informer.confirm("n");
    let snapshot = informer.snapshot();
    assert_eq!(snapshot.policies.values().next().unwrap().name, "two");
    assert_eq!(snapshot.peers, stored.peers, "pods have not been listed yet");
    informer.restore(&stored);
    assert_eq!(informer.snapshot(), snapshot, "the answer of the API server wins");
    informer.forget_pods();
    informer.forget_namespaces();
    assert!(informer.snapshot().peers.is_empty() && informer.snapshot().namespaces.is_empty());
}

/// A restarted informer whose stored snapshot has a confirmed policy, namespace and pod, of version 1.
fn restarted() -> Informer {
    let mut before = informer();
    before.confirm("n");
    let mut informer = Informer::default();
    informer.restore(&before.snapshot());
    informer
}

fn list_nothing(informer: &mut Informer, version: &str) {
    informer.apply_policies(Delta::Replaced(Vec::new(), version.to_owned()));
    informer.apply_namespaces(Delta::Replaced(Vec::new(), version.to_owned()));
    informer.apply_pods(Delta::Replaced(Vec::new(), version.to_owned()));
}

fn counts(informer: &Informer) -> [usize; 3] {
    let snapshot = informer.snapshot();
    [snapshot.policies.len(), snapshot.namespaces.len(), snapshot.peers.len()]
}

#[test]
fn a_list_removes_objects_only_after_its_server_is_confirmed() {
    let mut informer = restarted();
    list_nothing(&mut informer, "2");
    assert!(informer.is_unconfirmed());
    assert_eq!(counts(&informer), [1, 1, 1], "the server may have lost its data");
    assert!(informer.confirm("n").is_empty() && !informer.is_unconfirmed());
    assert_eq!(counts(&informer), [0, 0, 0]);
}

#[test]
fn a_list_adds_objects_before_its_server_is_confirmed() {
    let mut informer = restarted();
    informer.apply_policies(Delta::Replaced(vec![object(policy("two"))], "2".to_owned()));
    assert_eq!(informer.snapshot().policies.len(), 2);
}

#[test]
fn policies_that_a_restored_or_replaced_server_lacks_stay_in_force() {
    for (node_uid, version) in [("other", "2"), ("n", "0"), ("n", "1000000001")] {
        let mut informer = restarted();
        list_nothing(&mut informer, version);
        let missing = informer.confirm(node_uid);
        assert_eq!(missing, [("shop".to_owned(), "one".to_owned())].into(), "{node_uid} {version}");
        assert_eq!(counts(&informer), [1, 1, 1]);
        // Neither another list of the same server nor a restart ends them.
        let stored = informer.snapshot();
        informer = Informer::default();
        informer.restore(&stored);
        list_nothing(&mut informer, "1000000002");
        assert!(informer.confirm(node_uid).is_empty(), "they are reported once");
        assert_eq!(counts(&informer), [1, 1, 1]);
        informer.apply_policies(Delta::Applied(object(policy("one"))));
        informer.apply_policies(Delta::Deleted(object(policy("one"))));
        assert_eq!(counts(&informer), [0, 1, 1], "a user ends a policy by creating and deleting it");
    }
}

#[test]
fn a_kept_peer_ends_when_another_pod_has_its_address() {
    let mut informer = restarted();
    list_nothing(&mut informer, "2");
    let status = |ip: &str| json!({"phase": "Running", "podIP": ip});
    informer.apply_pods(Delta::Applied(object(pod("new", json!({}), status("10.0.0.9")))));
    assert_eq!(informer.snapshot().peers.len(), 2);
    informer.apply_pods(Delta::Applied(object(pod("newer", json!({}), status("10.0.0.2")))));
    let peers: Vec<String> = informer.snapshot().peers.into_keys().map(|(_, name)| name).collect();
    assert_eq!(peers, ["new", "newer"]);
}

#[tokio::test(start_paused = true)]
async fn peers_are_unneeded_some_time_after_the_demand_ends() {
    let (sender, demand) = watch::channel(Demand::Peers);
    let start = tokio::time::Instant::now();
    let waiting = tokio::spawn(unneeded(demand));
    for demand in [Demand::Policies, Demand::Peers, Demand::Policies] {
        // The task starts its timer before the clock advances.
        tokio::task::yield_now().await;
        tokio::time::advance(PEERS_LINGER / 2).await;
        sender.send_replace(demand);
    }
    assert!(waiting.await.unwrap());
    assert_eq!(start.elapsed(), PEERS_LINGER * 5 / 2);
}

#[test]
fn a_denied_list_is_repeated_less_often_after_some_time() {
    assert_eq!(
        [1, MAX_FAST_RETRIES, MAX_FAST_RETRIES + 1].map(list_retry),
        [LIST_RETRY, LIST_RETRY, SLOW_LIST_RETRY]
    );
}
