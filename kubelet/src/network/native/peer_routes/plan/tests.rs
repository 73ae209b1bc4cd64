//! Planned routes and tunnels to other nodes, and warnings about missing ones.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use proptest::prelude::*;

use super::{Hop, Path, Plan, PlanInput, Reachability, mac, plan};
use crate::network::nft::Family;
use crate::network::{Member, meet};

fn ranges(text: &str) -> Vec<IpNet> {
    text.split_whitespace().map(|range| range.parse().unwrap()).collect()
}

fn member(name: &str, addresses: &str, of: &str) -> Member {
    let addresses = addresses.split_whitespace().map(|ip| ip.parse().unwrap()).collect();
    Member { name: name.to_owned(), is_older: false, addresses, port: 10250, ranges: ranges(of) }
}

/// Reachability: 192.0.2.x and fd99:: are on the segment, 198.51.100.x and fd98:: behind a router, 203.0.113.x is unreachable, and
/// .1 is this machine.
fn way(address: &IpAddr) -> Reachability {
    let text = address.to_string();
    let from = Some(if address.is_ipv4() { "192.0.2.1" } else { "fd99::1" }.parse().unwrap());
    let path = Path { link: 2, mtu: 1500, from, gateway: None };
    let gateway = Some(if address.is_ipv4() { "192.0.2.254" } else { "fd99::fe" }.parse().unwrap());
    match text.as_str() {
        "192.0.2.1" | "fd99::1" => Reachability::Local,
        text if text.starts_with("192.0.2.") || text.starts_with("fd99::") => Reachability::SameSegment(path),
        text if text.starts_with("203.0.113.") => Reachability::None("Network unreachable".to_owned()),
        _ => Reachability::Routed(Path { gateway, ..path }),
    }
}

fn planned(current: &str, others: &[Member], local_nodes: &[&str]) -> Plan {
    let reachability: BTreeMap<IpAddr, Reachability> =
        others.iter().flat_map(|other| &other.addresses).map(|address| (*address, way(address))).collect();
    let local_nodes: BTreeSet<String> = local_nodes.iter().map(|name| (*name).to_owned()).collect();
    let servers = ["198.51.100.9".parse().unwrap()];
    plan(&PlanInput {
        node: "me",
        current: &ranges(current),
        others,
        reachability: &reachability,
        servers: &servers,
        local_nodes: &local_nodes,
    })
}

/// Checks the routes, one per line, and the warnings.
fn check(others: &[Member], local_nodes: &[&str], expected: &[&str], warnings: &[&str]) {
    let plan = planned("10.244.1.0/24 fd00:1::/64", others, local_nodes);
    let shown: Vec<String> = plan
        .routes
        .iter()
        .map(|(range, hop)| match hop {
            Hop::Direct { via, link } => format!("{range} via {via} dev {link}"),
            Hop::Vxlan { underlay, via } => format!("{range} via {via} under {underlay:?}"),
        })
        .collect();
    assert_eq!(shown, expected, "{others:?}");
    assert_eq!(plan.warnings.len(), warnings.len(), "{:?}", plan.warnings);
    for words in warnings {
        let all = |text: &String| words.split('&').all(|word| text.contains(word));
        assert!(plan.warnings.iter().any(all), "{words}: {:?}", plan.warnings);
    }
}

#[test]
fn peer_on_the_segment_gets_a_route_and_others_a_tunnel() {
    let both = "10.244.2.0/24 fd00:2::/64";
    let direct = ["10.244.2.0/24 via 192.0.2.2 dev 2", "fd00:2::/64 via fd99::2 dev 2"];
    check(&[member("b", "192.0.2.2 fd99::2", both)], &[], &direct, &[]);
    let mixed = ["10.244.2.0/24 via 192.0.2.2 dev 2", "fd00:2::/64 via fd00:2:: under V4"];
    check(&[member("b", "192.0.2.2", both)], &[], &mixed, &[]);
    let tunnel = ["10.244.2.0/24 via 10.244.2.0 under V4", "fd00:2::/64 via fd00:2:: under V6"];
    check(&[member("b", "198.51.100.2 fd98::2", both)], &[], &tunnel, &[]);
    // The first reachable address of a family counts; an unreachable address does not disable the other family.
    let first = ["10.244.2.0/24 via 10.244.2.0 under V6"];
    check(&[member("b", "203.0.113.2 192.0.2.2 fd98::2", "10.244.2.0/24")], &[], &first, &[]);
    check(&[member("b", "", "")], &[], &[], &[]);
}

#[test]
fn tunnel_has_mac_mtu_and_peers() {
    let others =
        [member("b", "198.51.100.2", "10.244.2.0/24 fd00:2::/64"), member("c", "fd98::3", "10.244.3.0/24")];
    let plan = planned("10.244.1.0/24 fd00:1::/64", &others, &[]);
    let v4 = &plan.tunnels[&Family::V4];
    let theirs = mac(&"10.244.2.0/24".parse().unwrap());
    assert_eq!((v4.mac, v4.mtu), (mac(&"10.244.1.0/24".parse().unwrap()), 1450));
    assert_eq!(v4.forwarding, [(theirs, "198.51.100.2".parse().unwrap())].into());
    assert_eq!(v4.neighbours.len(), 2);
    assert!(v4.neighbours.values().all(|mac| *mac == theirs));
    assert_eq!(v4.addresses, ["10.244.1.0", "fd00:1::"].map(|ip| ip.parse::<IpAddr>().unwrap()));
    let v6 = &plan.tunnels[&Family::V6];
    assert_eq!((v6.mtu, v6.neighbours.len()), (1430, 1));
    // Derived from the pod CIDR. It must never change, because nodes of different versions compute it for each other.
    assert_eq!(hex::encode(theirs), "0298bd1c4aef");
}

#[test]
fn pod_cidr_that_contains_the_api_server_gets_no_route() {
    let warnings = ["198.51.100.0/24 of node b&198.51.100.9, the address of the API server"];
    check(&[member("b", "192.0.2.2", "198.51.100.0/24")], &[], &[], &warnings);
}

#[test]
fn older_node_wins_a_pod_cidr_conflict() {
    let b = "10.244.2.0/24 via 192.0.2.2 dev 2";
    let of = |name, address, range| member(name, address, range);
    check(
        &[of("b", "192.0.2.2", "10.244.2.0/24"), of("c", "192.0.2.3", "10.244.2.128/25")],
        &[],
        &[b],
        &["b and c& 10.244.2.128/25: b&delete node c"],
    );
    check(
        &[of("b", "192.0.2.2", "10.244.2.0/24"), of("c", "192.0.2.2", "10.244.3.0/24")],
        &[],
        &[b],
        &["b and c&192.0.2.2&--node-ip"],
    );
    // Several nodes on one machine, seen from another machine and from their own.
    let second = |ip| Member { port: 10251, ..of("c", ip, "10.244.3.0/24") };
    let c = "10.244.3.0/24 via 192.0.2.2 dev 2";
    check(&[of("b", "192.0.2.2", "10.244.2.0/24"), second("192.0.2.2")], &[], &[b, c], &[]);
    check(&[of("b", "192.0.2.1", "10.244.2.0/24"), second("192.0.2.1")], &["b", "c"], &[], &[]);
    check(
        &[of("b", "192.0.2.1", "10.244.2.0/24"), of("c", "192.0.2.1", "10.244.3.0/24")],
        &["b", "c"],
        &[],
        &[],
    );
    // A conflict in both IP families causes one warning per losing node.
    let both = |name, range| of(name, "192.0.2.2 fd99::2", range);
    let (second_of, third_of) = (both("c", "10.244.3.0/24"), both("d", "10.244.4.0/24"));
    let lost = ["b and c&192.0.2.2 and fd99::2&of c are unreachable", "b and d&of d are unreachable"];
    check(&[both("b", "10.244.2.0/24"), second_of, third_of], &[], &[b], &lost);
    let half = of("c", "192.0.2.2 fd99::3", "fd00:3::/64");
    let c6 = "fd00:3::/64 via fd99::3 dev 2";
    check(&[both("b", "10.244.2.0/24"), half], &[], &[b, c6], &["b and c&192.0.2.2: b"]);
    let strange = ["c&192.0.2.1&me&belongs to this machine"];
    check(&[of("b", "192.0.2.1", "10.244.2.0/24"), second("192.0.2.1")], &["b"], &[], &strange);
    check(&[of("b", "192.0.2.2", "10.244.1.128/25")], &[], &[], &["me and b&10.244.1.128/25&delete node b"]);
    let older = Member { is_older: true, ..of("b", "192.0.2.2", "10.244.0.0/16") };
    check(&[older], &[], &[], &["b and me&10.244.1.0/24&delete node me"]);
    check(&[of("b", "192.0.2.1", "10.244.2.0/24")], &["b"], &[], &[]);
    check(&[of("b", "192.0.2.1", "10.244.2.0/24")], &[], &[], &["b&192.0.2.1&me&belongs to this machine"]);
    // A CIDR that a node lists twice counts once.
    check(&[of("b", "192.0.2.2", "10.244.2.0/24 10.244.2.0/24")], &[], &[b], &[]);
}

#[test]
fn a_pod_cidr_that_would_cut_off_other_nodes_gets_no_route() {
    let b = member("b", "192.0.2.2", "10.244.2.0/24");
    let laid = ["10.244.2.0/24 via 192.0.2.2 dev 2"];
    for (range, words) in [
        ("192.0.2.0/25", "address of node"),
        ("192.0.2.254/32", "router"),
        ("0.0.0.0/0", "cannot be a pod CIDR"),
        ("127.0.0.0/8", "cannot be a pod CIDR"),
        ("fe80::/64", "cannot be a pod CIDR"),
        ("198.51.100.0/24", "address of node c"),
    ] {
        let c = member("c", "198.51.100.3", range);
        check(&[b.clone(), c], &[], &laid, &[&format!("node c&{range}&{words}")]);
    }
    check(
        &[member("b", "203.0.113.2", "10.244.2.0/24")],
        &[],
        &[],
        &["node b&no route to the node&203.0.113.2: Network"],
    );
    check(&[member("b", "", "10.244.2.0/24")], &[], &[], &["node b&no address&--node-ip"]);
}

fn any_member() -> impl Strategy<Value = Member> {
    let address = prop_oneof![
        (0_u8..6).prop_map(|last| format!("192.0.2.{last}")),
        (0_u8..6).prop_map(|last| format!("198.51.100.{last}")),
        (0_u8..6).prop_map(|last| format!("fd98::{last}")),
        (0_u8..6).prop_map(|last| format!("10.244.{last}.7")),
        Just("203.0.113.1".to_owned()),
    ];
    let range = prop_oneof![
        (0_u8..8, 20_u8..27).prop_map(|(third, length)| format!("10.244.{third}.0/{length}")),
        (0_u8..4, 60_u8..68).prop_map(|(third, length)| format!("fd00:{third}::/{length}")),
        Just("192.0.0.0/8".to_owned()),
    ];
    let parts =
        (0_u8..5, any::<bool>(), prop::collection::vec(address, 0..3), prop::collection::vec(range, 0..3));
    parts.prop_map(|(name, is_older, addresses, ranges)| Member {
        is_older,
        ..member(&format!("n{name}"), &addresses.join(" "), &ranges.join(" "))
    })
}

proptest! {
    #[test]
    fn plan_never_routes_a_pod_cidr_twice_or_over_the_own_one(
        others in prop::collection::vec(any_member(), 0..8)
    ) {
        let own = "10.244.1.0/24 fd00:1::/64";
        let plan = planned(own, &others, &["n0"]);
        let laid: Vec<&IpNet> = plan.routes.keys().collect();
        for (at, range) in laid.iter().enumerate() {
            prop_assert!(!laid[at + 1..].iter().any(|other| meet(range, other)), "{plan:?}");
            prop_assert!(!ranges(own).iter().any(|own| meet(own, range)), "{plan:?}");
            let holds_a_machine = others.iter().any(|other| {
                !other.ranges.is_empty() && super::super::conflicts::usable_addresses(other).any(|ip| range.contains(&ip))
            });
            prop_assert!(!holds_a_machine, "{plan:?}");
        }
        for (range, hop) in &plan.routes {
            if let Hop::Vxlan { underlay, via } = hop {
                let tunnel = &plan.tunnels[underlay];
                let end = tunnel.neighbours.get(via);
                prop_assert!(end.is_some_and(|mac| tunnel.forwarding.contains_key(mac)), "{range}: {plan:?}");
            }
        }
        prop_assert!(plan.routes.keys().all(|range| plan.cluster.contains(range)));
    }
}
