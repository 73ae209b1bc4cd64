//! Tests of the semantics, from the NetworkPolicy API reference.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::{
    AddressRange, Connection, Decision, Direction, End, NamedPort, NamespaceLabels, Pod, Policy, Protocol,
    block_of, decide,
};

fn policy(name: &str, spec: Value) -> Policy {
    Policy {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        spec: serde_json::from_value(spec).unwrap(),
    }
}

fn pod(namespace: &str, name: &str, address: &str) -> Pod {
    Pod {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        labels: [("app".to_owned(), name.to_owned())].into(),
        addresses: vec![address.parse().unwrap()],
        ports: vec![NamedPort { name: "web".to_owned(), protocol: Protocol::Tcp, number: 8080 }],
    }
}

/// A pod with its first address.
fn end(pod: &Pod) -> End<'_> {
    End::Pod(pod, pod.addresses[0])
}

fn namespaces() -> NamespaceLabels {
    ["shop", "ops"].map(|name| (name.to_owned(), [("name".to_owned(), name.to_owned())].into())).into()
}

/// Whether a policy of `shop/web` admits a TCP connection of `ops/watch` to a port, in a direction.
fn is_allowed(spec: Value, direction: Direction, port: u16) -> bool {
    let (web, watch) = (pod("shop", "web", "10.0.0.2"), pod("ops", "watch", "10.0.1.2"));
    let (from, to) = match direction {
        Direction::Ingress => (end(&watch), end(&web)),
        Direction::Egress => (end(&web), end(&watch)),
    };
    let connection = Connection { from, to, protocol: Protocol::Tcp, port };
    decide([&policy("one", spec)], &namespaces(), &connection, direction).is_allowed()
}

#[test]
fn peers_and_ports_of_a_rule_must_both_match() {
    let rule =
        |from: Value, ports: Value| json!({"podSelector": {}, "ingress": [{"from": from, "ports": ports}]});
    let ops = json!([{"namespaceSelector": {"matchLabels": {"name": "ops"}}}]);
    for (spec, port, expected) in [
        (json!({"podSelector": {}}), 80, false),
        (json!({"podSelector": {"matchLabels": {"app": "other"}}}), 80, true),
        (json!({"podSelector": {}, "ingress": [{}]}), 80, true),
        (rule(ops.clone(), json!([])), 80, true),
        (rule(ops.clone(), json!([{"port": 80}])), 80, true),
        (rule(ops.clone(), json!([{"port": 80}])), 81, false),
        (rule(ops.clone(), json!([{"port": 80, "endPort": 90}])), 90, true),
        (rule(ops.clone(), json!([{"port": 80, "protocol": "UDP"}])), 80, false),
        (rule(ops.clone(), json!([{"port": "web"}])), 8080, true),
        (rule(ops, json!([{"port": "web"}])), 80, false),
        (rule(json!([{"podSelector": {}}]), json!([])), 80, false),
        (rule(json!([{"ipBlock": {"cidr": "10.0.0.0/16"}}]), json!([])), 80, true),
        (
            rule(json!([{"ipBlock": {"cidr": "10.0.0.0/16", "except": ["10.0.1.0/24"]}}]), json!([])),
            80,
            false,
        ),
    ] {
        assert_eq!(is_allowed(spec.clone(), Direction::Ingress, port), expected, "{spec} {port}");
    }
}

#[test]
fn policies_of_the_client_decide_about_egress() {
    let to =
        |ports: Value| json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": ports}]});
    assert!(is_allowed(to(json!([{"port": "web"}])), Direction::Egress, 8080), "the port of the destination");
    assert!(!is_allowed(to(json!([{"port": "web"}])), Direction::Egress, 80));
    assert!(is_allowed(to(json!([])), Direction::Egress, 80));
    assert!(is_allowed(json!({"podSelector": {}}), Direction::Egress, 80), "the policy is for ingress only");
}

#[test]
fn a_decision_names_the_policies() {
    let web = pod("shop", "web", "10.0.0.2");
    let outside: IpAddr = "192.0.2.1".parse().unwrap();
    let policies = [
        policy("deny", json!({"podSelector": {}})),
        policy("allow", json!({"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]})),
    ];
    let decide = |port| {
        let connection =
            Connection { from: End::Address(outside), to: end(&web), protocol: Protocol::Tcp, port };
        decide(&policies, &namespaces(), &connection, Direction::Ingress)
    };
    assert_eq!(decide(80), Decision::AllowedBy(vec![&policies[1]]));
    assert_eq!(decide(81), Decision::BlockedBy(vec![&policies[0], &policies[1]]));
}

#[test]
fn a_pod_reaches_itself() {
    let web = pod("shop", "web", "10.0.0.2");
    let connection = Connection { from: end(&web), to: end(&web), protocol: Protocol::Tcp, port: 80 };
    let deny = policy("deny", json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}));
    for direction in Direction::BOTH {
        assert_eq!(decide([&deny], &namespaces(), &connection, direction), Decision::NotIsolated);
    }
}

#[test]
fn a_range_without_another_one_keeps_the_rest() {
    let without = |cidr: &str, except: &str| -> Vec<String> {
        let rest = AddressRange::parse(cidr).unwrap().without(&AddressRange::parse(except).unwrap());
        rest.iter().flat_map(AddressRange::cidrs).map(|cidr| cidr.to_string()).collect()
    };
    assert_eq!(without("10.0.0.0/30", "10.0.0.1/32"), ["10.0.0.0/32", "10.0.0.2/31"]);
    assert_eq!(without("0.0.0.0/0", "0.0.0.0/1"), ["128.0.0.0/1"]);
    assert_eq!(without("::/0", "8000::/1"), ["::/1"]);
    assert_eq!(without("10.0.0.0/8", "10.0.0.0/8"), Vec::<String>::new());
    assert_eq!(without("10.0.0.0/8", "fd00::/8"), ["10.0.0.0/8"]);
}

#[test]
fn a_block_that_cannot_be_parsed_allows_nothing() {
    let block = |block: Value| {
        let spec = json!({"ingress": [{"from": [{"ipBlock": block}]}]});
        let policy = policy("one", spec);
        block_of(&policy.rules(Direction::Ingress)[0].peers[0]).len()
    };
    assert_eq!(block(json!({"cidr": "10.0.0.0/8"})), 1);
    assert_eq!(block(json!({"cidr": "10.0.0.0/99"})), 0);
    assert_eq!(block(json!({"cidr": "10.0.0.0/8", "except": ["?"]})), 0);
}

#[test]
fn a_block_of_one_family_admits_no_address_of_the_other_family() {
    let web = pod("shop", "web", "10.0.0.2");
    let mut watch = pod("ops", "watch", "10.0.1.2");
    watch.addresses.push("fd00::2".parse().unwrap());
    let block = policy("one", json!({"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}));
    for (address, expected) in [(watch.addresses[0], true), (watch.addresses[1], false)] {
        let connection =
            Connection { from: End::Pod(&watch, address), to: end(&web), protocol: Protocol::Tcp, port: 80 };
        let decision = decide([&block], &namespaces(), &connection, Direction::Ingress);
        assert_eq!(decision.is_allowed(), expected, "{address}");
    }
}

#[test]
fn a_namespace_selector_matches_no_namespace_with_unknown_labels() {
    let watch = pod("ops", "watch", "10.0.1.2");
    let not = |operator: &str| json!({"matchExpressions": [{"key": "name", "operator": operator, "values": ["x"]}]});
    for (selector, if_known, if_unknown) in [
        (not("NotIn"), true, false),
        (json!({"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]}), true, false),
        (json!({}), true, true),
        (json!({"matchLabels": {}, "matchExpressions": []}), true, true),
    ] {
        let policy = policy("one", json!({"ingress": [{"from": [{"namespaceSelector": selector}]}]}));
        let peer = &policy.rules(Direction::Ingress)[0].peers[0];
        assert_eq!(policy.peer_matches(peer, &watch, &namespaces()), if_known, "{selector}");
        assert_eq!(policy.peer_matches(peer, &watch, &NamespaceLabels::new()), if_unknown, "{selector}");
    }
}
