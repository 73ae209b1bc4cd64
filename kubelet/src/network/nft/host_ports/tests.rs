//! Encoding of host ports, and changes between two sets of them.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use super::{Changes, Map, Port, Protocol, plan};

fn port(at: &str, number: u16, to: &str) -> Port {
    let at: IpAddr = at.parse().unwrap();
    Port::new(at, Protocol::Tcp, number, to.parse::<SocketAddr>().unwrap()).unwrap()
}

#[test]
fn wildcard_host_port_key_contains_protocol_and_port() {
    let port = port("0.0.0.0", 8080, "10.0.0.5:80");
    assert_eq!(port.map().name(), "ports");
    assert_eq!(port.key(), [6, 0, 0, 0, 0x1f, 0x90, 0, 0]);
    assert_eq!(port.value(), [10, 0, 0, 5, 0, 80, 0, 0]);
}

#[test]
fn host_port_elements_round_trip() {
    for (at, to) in [
        ("0.0.0.0", "10.0.0.5:80"),
        ("127.0.0.1", "10.0.0.5:80"),
        ("::", "[fd00::5]:80"),
        ("::1", "[fd00::5]:65535"),
    ] {
        let port = port(at, 443, to);
        assert_eq!(Port::read(port.map(), &port.key(), &port.value()), Some(port));
        for map in Map::ALL.into_iter().filter(|map| *map != port.map()) {
            assert_eq!(Port::read(map, &port.key(), &port.value()), None, "{at} in {}", map.name());
        }
    }
    assert_eq!(Port::read(Map::ALL[1], &[], &[]), None);
}

#[test]
fn host_port_rejects_a_pod_address_of_another_family() {
    let to = "[fd00::5]:80".parse().unwrap();
    assert_eq!(Port::new("10.0.0.1".parse().unwrap(), Protocol::Udp, 53, to), None);
}

#[test]
fn host_port_plan_removes_before_it_adds() {
    let (kept, moved) = (port("0.0.0.0", 80, "10.0.0.5:80"), port("0.0.0.0", 81, "10.0.0.6:80"));
    let (old, gone) = (port("0.0.0.0", 81, "10.0.0.7:80"), port("::", 81, "[fd00::7]:80"));
    let changes = plan(&BTreeSet::from([kept, moved]), &BTreeSet::from([kept, old, gone]));
    assert_eq!(changes, Changes { remove: vec![old, gone], add: vec![moved] });
    assert!(plan(&BTreeSet::from([kept]), &BTreeSet::from([kept])).is_empty());
}

#[test]
fn conflicting_host_port_stays_with_its_first_pod() {
    let (first, second) = (port("0.0.0.0", 80, "10.0.0.5:80"), port("0.0.0.0", 80, "10.0.0.6:80"));
    let wanted = BTreeSet::from([second, first]);
    assert_eq!(plan(&wanted, &BTreeSet::new()).add, [first]);
    assert!(plan(&wanted, &BTreeSet::from([first])).is_empty());
}
