//! Tests of the plan, from the NetworkPolicy API reference.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use api::network_policy::{NamedPort, Pod, Policy, Protocol};
use serde_json::{Value, json};

use super::{LocalPod, demand, plan};
use crate::cluster::policies::{Demand, PeerPod, PolicySnapshot};
use crate::network::nft::Protocol as Transport;
use crate::network::nft::policies::{Allow, Chain, IsolatedPod, PolicyRules, Ports};

const NODE: &str = "n1";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A pod with the label `app` of its name, and a port `web`.
fn pod(namespace: &str, name: &str, address: &str, web: u16) -> Pod {
    Pod {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        labels: [("app".to_owned(), name.to_owned())].into(),
        addresses: vec![ip(address)],
        ports: vec![NamedPort { name: "web".to_owned(), protocol: Protocol::Tcp, number: web }],
    }
}

fn local(pod: Pod) -> LocalPod {
    let mac = [2, 0, 0, 0, 0, 1];
    LocalPod { has_known_labels: true, port: format!("cor-{}", pod.name), mac, pod: Arc::new(pod) }
}

/// A cluster with the namespaces `shop` and `ops`, two remote pods, and these specifications of policies in `shop`.
fn snapshot(specs: &[Value]) -> PolicySnapshot {
    let policies = specs.iter().enumerate().map(|(number, spec)| {
        let (namespace, name) = ("shop".to_owned(), format!("p{number}"));
        let spec = serde_json::from_value(spec.clone()).unwrap();
        ((namespace.clone(), name.clone()), Arc::new(Policy { namespace, name, spec }))
    });
    let remote = |namespace: &str, name: &str, address: &str, web| {
        let peer = PeerPod { node: "n2".to_owned(), pod: pod(namespace, name, address, web) };
        ((namespace.to_owned(), name.to_owned()), Arc::new(peer))
    };
    let namespace = |name: &str| (name.to_owned(), [("name".to_owned(), name.to_owned())].into());
    PolicySnapshot {
        is_known: true,
        policies: policies.collect(),
        namespaces: Arc::new([namespace("shop"), namespace("ops")].into()),
        peers: [remote("shop", "far", "10.0.2.2", 8080), remote("ops", "watch", "10.0.2.3", 9090)].into(),
        ..PolicySnapshot::default()
    }
}

/// The rules with two local pods: `shop/a` and `shop/b`.
fn rules(specs: &[Value]) -> PolicyRules {
    let pods = [local(pod("shop", "a", "10.0.1.2", 80)), local(pod("shop", "b", "10.0.1.3", 81))];
    plan(&snapshot(specs), NODE, &pods)
}

fn of<'r>(rules: &'r PolicyRules, name: &str) -> Option<&'r IsolatedPod> {
    rules.pods.iter().find(|pod| pod.port == format!("cor-{name}"))
}

fn ingress<'r>(rules: &'r PolicyRules, name: &str) -> &'r Chain {
    &rules.chains[&of(rules, name).unwrap().ingress.unwrap()]
}

fn egress<'r>(rules: &'r PolicyRules, name: &str) -> &'r Chain {
    &rules.chains[&of(rules, name).unwrap().egress.unwrap()]
}

/// The addresses of the pods that the first rule of a chain names.
fn peers(rules: &PolicyRules, chain: &Chain) -> BTreeSet<IpAddr> {
    match &chain.rules[0].allow {
        Allow::Peers { peers: Some(id), .. } => rules.peers[id].pods.clone(),
        other => panic!("{other:?}"),
    }
}

fn ports(chain: &Chain) -> Vec<Option<Ports>> {
    let ports = chain.rules.iter().map(|rule| match &rule.allow {
        Allow::Peers { ports, .. } => *ports,
        other => panic!("{other:?}"),
    });
    ports.collect()
}

fn tcp(first: u16, last: u16) -> Option<Ports> {
    Some(Ports { protocol: Transport::Tcp, first, last })
}

#[test]
fn an_empty_selector_isolates_all_pods_of_the_namespace_for_ingress() {
    let rules = rules(&[json!({"podSelector": {}})]);
    for name in ["a", "b"] {
        assert!(ingress(&rules, name).rules.is_empty(), "nothing is allowed");
        assert_eq!(of(&rules, name).unwrap().egress, None);
    }
    assert_eq!(rules.chains.len(), 1, "pods with the same rules share a chain");
}

#[test]
fn a_policy_without_types_applies_to_egress_only_with_egress_rules() {
    let with_egress = rules(&[json!({"podSelector": {}, "egress": [{}]})]);
    assert_eq!(ports(egress(&with_egress, "a")), [None], "an empty rule allows everything");
    assert!(ingress(&with_egress, "a").rules.is_empty());
    let only_egress = rules(&[json!({"podSelector": {}, "policyTypes": ["Egress"]})]);
    assert!(egress(&only_egress, "a").rules.is_empty());
    assert_eq!(of(&only_egress, "a").unwrap().ingress, None);
}

#[test]
fn a_policy_that_selects_nothing_changes_nothing() {
    let none = json!({"podSelector": {"matchLabels": {"app": "missing"}}});
    assert_eq!(rules(&[none]), PolicyRules::default());
}

#[test]
fn a_pod_selector_matches_in_the_namespace_of_the_policy() {
    let spec = json!({"podSelector": {"matchLabels": {"app": "a"}}, "ingress": [{"from": [
        {"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["b", "far", "watch"]}]}}]}]});
    let rules = rules(&[spec]);
    assert_eq!(peers(&rules, ingress(&rules, "a")), [ip("10.0.1.3"), ip("10.0.2.2")].into());
    assert!(of(&rules, "b").is_none());
}

#[test]
fn selectors_of_one_peer_must_both_match() {
    let from = |peers: Value| rules(&[json!({"podSelector": {}, "ingress": [{"from": peers}]})]);
    let ops = json!({"matchLabels": {"name": "ops"}});
    let by_namespace = from(json!([{"namespaceSelector": ops}]));
    assert_eq!(peers(&by_namespace, ingress(&by_namespace, "a")), [ip("10.0.2.3")].into());
    let both = from(json!([{"namespaceSelector": ops, "podSelector": {"matchLabels": {"app": "far"}}}]));
    assert!(peers(&both, ingress(&both, "a")).is_empty());
    let either = from(json!([{"namespaceSelector": ops}, {"podSelector": {"matchLabels": {"app": "far"}}}]));
    assert_eq!(peers(&either, ingress(&either, "a")), [ip("10.0.2.2"), ip("10.0.2.3")].into());
    let everyone = from(json!([{"namespaceSelector": {}}]));
    assert_eq!(peers(&everyone, ingress(&everyone, "a")).len(), 4);
}

#[test]
fn a_block_excludes_its_exceptions() {
    let block = json!({"cidr": "10.0.0.0/24", "except": ["10.0.0.0/26", "10.0.0.128/25"]});
    let rules = rules(&[json!({"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]})]);
    let Allow::Peers { peers: Some(id), .. } = &ingress(&rules, "a").rules[0].allow else { panic!() };
    let blocks: Vec<String> = rules.peers[id].blocks.iter().map(ToString::to_string).collect();
    assert_eq!(blocks, ["10.0.0.64/26"]);
    assert!(rules.peers[id].pods.is_empty());
}

#[test]
fn ports_are_numbers_ranges_or_all_of_a_protocol() {
    let spec = json!({"podSelector": {}, "ingress": [{"ports": [
        {"port": 80}, {"port": 8000, "endPort": 8010}, {"protocol": "UDP"}]}]});
    let all_udp = Some(Ports { protocol: Transport::Udp, first: 0, last: u16::MAX });
    assert_eq!(ports(ingress(&rules(&[spec]), "a")), [tcp(80, 80), tcp(8000, 8010), all_udp]);
}

#[test]
fn a_named_port_of_ingress_is_that_of_each_selected_pod() {
    let rules =
        rules(&[json!({"podSelector": {}, "ingress": [{"ports": [{"port": "web"}, {"port": "none"}]}]})]);
    assert_eq!(ports(ingress(&rules, "a")), [tcp(80, 80)]);
    assert_eq!(ports(ingress(&rules, "b")), [tcp(81, 81)]);
}

#[test]
fn a_named_port_of_egress_is_that_of_each_destination() {
    let to = json!([{"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}]);
    let rules = rules(&[json!({"podSelector": {"matchLabels": {"app": "a"}},
        "policyTypes": ["Egress"], "egress": [{"to": to, "ports": [{"port": "web"}]}]})]);
    let Allow::Destinations(id) = egress(&rules, "a").rules[0].allow else { panic!() };
    let expected = [("10.0.1.2", 80), ("10.0.1.3", 81), ("10.0.2.2", 8080)];
    let expected = expected.map(|(address, port)| (ip(address), Transport::Tcp, port));
    assert_eq!(rules.destinations[&id], expected.into());
}

#[test]
fn policies_that_select_the_same_pod_add_up() {
    let allow = |port: u16| json!({"podSelector": {}, "ingress": [{"ports": [{"port": port}]}]});
    let rules = rules(&[json!({"podSelector": {}}), allow(80), allow(443)]);
    assert_eq!(ports(ingress(&rules, "a")), [tcp(80, 80), tcp(443, 443)]);
}

#[test]
fn peers_are_needed_only_for_selectors_that_concern_a_pod_of_this_node() {
    let own = [local(pod("shop", "a", "10.0.1.2", 80))];
    let peers = json!([{"podSelector": {}}]);
    for (spec, expected) in [
        (json!({"podSelector": {}}), Demand::Policies),
        (
            json!({"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]}),
            Demand::Policies,
        ),
        (json!({"podSelector": {}, "ingress": [{"from": peers}]}), Demand::Peers),
        (
            json!({"podSelector": {"matchLabels": {"app": "b"}}, "ingress": [{"from": peers}]}),
            Demand::Policies,
        ),
        (json!({"podSelector": {}, "egress": [{"ports": [{"port": "web"}]}]}), Demand::Peers),
    ] {
        assert_eq!(demand(&snapshot(std::slice::from_ref(&spec)), &own), expected, "{spec}");
    }
    assert_eq!(
        demand(&snapshot(&[json!({"podSelector": {}, "ingress": [{"from": peers}]})]), &[]),
        Demand::Policies
    );
}

#[test]
fn peers_of_this_node_come_from_the_kubelet() {
    let spec = json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]});
    let mut snapshot = snapshot(&[spec]);
    let stale = PeerPod { node: NODE.to_owned(), pod: pod("shop", "gone", "10.0.1.9", 80) };
    snapshot.peers.insert(("shop".to_owned(), "gone".to_owned()), Arc::new(stale));
    let rules = plan(&snapshot, NODE, &[local(pod("shop", "a", "10.0.1.2", 80))]);
    assert_eq!(peers(&rules, ingress(&rules, "a")), [ip("10.0.1.2"), ip("10.0.2.2")].into());
}

/// A snapshot whose pod `shop/far` also has the address `fd00::2`.
fn dual_stack(specs: &[Value]) -> PolicySnapshot {
    let mut snapshot = snapshot(specs);
    let far = snapshot.peers.get_mut(&("shop".to_owned(), "far".to_owned())).unwrap();
    Arc::make_mut(far).pod.addresses.push(ip("fd00::2"));
    snapshot
}

#[test]
fn a_block_of_one_family_admits_no_address_of_the_other_family() {
    let block = json!([{"ipBlock": {"cidr": "10.0.0.0/8"}}]);
    let pods = [local(pod("shop", "a", "10.0.1.2", 80))];
    let ingress_only = json!({"podSelector": {}, "ingress": [{"from": block}]});
    let rules = plan(&dual_stack(&[ingress_only]), NODE, &pods);
    assert!(peers(&rules, ingress(&rules, "a")).is_empty(), "the block itself covers the addresses");
    let to_port = json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": block, "ports": [{"port": "web"}]}]});
    let rules = plan(&dual_stack(&[to_port]), NODE, &pods);
    let Allow::Destinations(id) = egress(&rules, "a").rules[0].allow else { panic!() };
    assert!(rules.destinations[&id].contains(&(ip("10.0.2.2"), Transport::Tcp, 8080)));
    assert!(rules.destinations[&id].iter().all(|(ip, ..)| ip.is_ipv4()), "{:?}", rules.destinations[&id]);
}

#[test]
fn a_selector_admits_all_addresses_of_a_pod() {
    let from = json!([{"podSelector": {"matchLabels": {"app": "far"}}}]);
    let snapshot = dual_stack(&[json!({"podSelector": {}, "ingress": [{"from": from}]})]);
    let rules = plan(&snapshot, NODE, &[local(pod("shop", "a", "10.0.1.2", 80))]);
    assert_eq!(peers(&rules, ingress(&rules, "a")), [ip("10.0.2.2"), ip("fd00::2")].into());
}

#[test]
fn all_policies_of_its_namespace_select_a_pod_with_unknown_labels() {
    let select = |app: &str| json!({"podSelector": {"matchLabels": {"app": app}}});
    let is_isolated = |namespace: &str, has_known_labels| {
        let pod = LocalPod { has_known_labels, ..local(pod(namespace, "x", "10.0.1.2", 80)) };
        !plan(&snapshot(&[select("other")]), NODE, &[pod]).pods.is_empty()
    };
    assert!(is_isolated("shop", false), "its labels may match");
    assert!(!is_isolated("ops", false), "the policy is of another namespace");
    assert!(is_isolated("", false), "its namespace may be that of the policy");
    assert!(!is_isolated("shop", true));
}
