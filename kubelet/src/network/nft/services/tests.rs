//! Tests of the elements and chains of the service proxy's table.

use std::net::SocketAddr;

use super::elements::{Value, changes, elements};
use super::layout::{Capacity, Chain, Set, SetKind, layout, service_chains};
use super::{Group, GroupId, ServiceAddress, ServiceNode, ServiceRules, Side, Target};
use crate::network::nft::{Family, Protocol};

fn at(text: &str, protocol: Protocol) -> ServiceAddress {
    let at: SocketAddr = text.parse().unwrap();
    ServiceAddress { ip: at.ip(), protocol, port: at.port() }
}

/// Rules with one Service at `10.96.0.9:80`.
fn rules(endpoints: &[&str], affinity_seconds: Option<u32>) -> ServiceRules {
    let mut rules = ServiceRules::default();
    let id = GroupId::of("web");
    let endpoints = endpoints.iter().map(|text| text.parse().unwrap()).collect();
    rules.groups.insert(id, Group { affinity_seconds, endpoints });
    rules.targets.insert((Side::Inside, at("10.96.0.9:80", Protocol::Tcp)), Target::Group(id));
    rules
}

fn names(rules: &ServiceRules) -> Vec<String> {
    service_chains(rules).iter().map(Chain::name).collect()
}

#[test]
fn a_chain_exists_once_per_number_of_endpoints() {
    let mut two = rules(&["10.0.0.2:80", "10.0.0.3:80"], None);
    assert_eq!(names(&two), ["inside_2"]);
    let id = GroupId::of("web");
    for (side, text) in [(Side::Inside, "10.96.0.10:80"), (Side::Outside, "0.0.0.0:30080")] {
        two.targets.insert((side, at(text, Protocol::Udp)), Target::Group(id));
    }
    assert_eq!(names(&two), ["inside_2", "outside_port_2"]);
    let sticky = names(&rules(&["10.0.0.2:80"], Some(60)));
    assert_eq!(sticky, ["inside_1_for_60s", "to_10.0.0.2_80_for_60s"]);
}

#[test]
fn elements_lead_from_an_address_to_endpoints() {
    let all = elements(&rules(&["10.0.0.2:80", "10.0.0.3:8080"], None));
    let get = |kind, key: &[u8]| all.get(&(Set { kind, family: Family::V4 }, key.into())).cloned();
    let key = [10, 96, 0, 9, 6, 0, 0, 0, 0, 80, 0, 0];
    assert_eq!(get(SetKind::Services(Side::Inside), &key), Some(Value::Goto("inside_2".into())));
    let inside = SetKind::Endpoints(Side::Inside);
    let endpoint = |number: u32| get(inside, &[&key[..], &number.to_ne_bytes()].concat());
    assert_eq!(endpoint(0), Some(Value::Data([10, 0, 0, 2, 0, 80, 0, 0].into())));
    assert_eq!(endpoint(1), Some(Value::Data([10, 0, 0, 3, 0x1f, 0x90, 0, 0].into())));
    assert_eq!(all.len(), 4, "the other element is the address");
}

#[test]
fn a_change_of_one_service_changes_only_its_elements() {
    let before = elements(&rules(&["10.0.0.2:80", "10.0.0.3:80"], None));
    let after = elements(&rules(&["10.0.0.2:80"], None));
    let (messages, count) = changes("t", &before, &after);
    assert_eq!(count, 3, "the chain of the Service is replaced, and one endpoint deleted");
    assert_eq!(messages.len(), 3);
    assert_eq!(changes("t", &after, &after), (Vec::new(), 0));
}

#[test]
fn cluster_ips_are_elements_of_their_own() {
    let rules =
        ServiceRules { cluster_ips: ["10.96.0.9".parse().unwrap()].into(), ..ServiceRules::default() };
    let set = Set { kind: SetKind::ClusterIps, family: Family::V4 };
    assert_eq!(elements(&rules).into_iter().next(), Some(((set, [10, 96, 0, 9].into()), Value::None)));
}

#[test]
fn sizes_leave_room_to_double() {
    let few = rules(&["10.0.0.2:80"], None);
    let least = Capacity::of(&few);
    assert_eq!((least.services, least.endpoints), (1024, 4096));
    let mut many = few.clone();
    for port in 1..=3000 {
        many.targets.insert((Side::Outside, at(&format!("10.96.1.1:{port}"), Protocol::Tcp)), Target::Reject);
    }
    assert!(least.fits(&few) && !least.fits(&many));
    assert_eq!(Capacity::of(&many).services, 8192);
    let node = ServiceNode { name: "t".into(), bridge: "b".into(), cidrs: vec![], filters_bridged: true };
    let layout = layout(&node, &service_chains(&few), least);
    assert!(layout.chains.contains_key("inside_1") && layout.sets.len() == 24);
}

#[test]
fn sides_share_endpoints_only_if_their_targets_are_equal() {
    let mut shared = rules(&["10.0.0.2:80"], None);
    let service = at("10.96.0.9:80", Protocol::Tcp);
    shared.targets.insert((Side::Outside, service), Target::Group(GroupId::of("web")));
    assert_eq!(names(&shared), ["inside_1"]);
    let local = Group { affinity_seconds: None, endpoints: vec!["10.0.0.3:80".parse().unwrap()] };
    shared.groups.insert(GroupId::of("local"), local);
    shared.targets.insert((Side::Outside, service), Target::Group(GroupId::of("local")));
    assert_eq!(names(&shared), ["inside_1", "outside_1"]);
}

#[test]
fn clients_of_an_endpoint_that_is_gone_are_forgotten() {
    let sticky = rules(&["10.0.0.2:80"], Some(60));
    let key = |client: u8| -> Box<[u8]> { [192, 0, 2, client, 10, 96, 0, 9, 6, 0, 0, 0, 0, 80, 0, 0].into() };
    let to = |last: u8| Value::Data([10, 0, 0, last, 0, 80, 0, 0].into());
    let entries: Vec<(Box<[u8]>, Value)> = vec![(key(1), to(2)), (key(2), to(3))];
    assert_eq!(super::affinity::stale(&sticky, entries, Family::V4), [key(2)]);
}
