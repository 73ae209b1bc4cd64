//! Tests of the planner, by the rules of the Kubernetes documentation about virtual IPs and service proxies.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use super::{NodeFacts, Plan, plan};
use crate::cluster::services::{
    Endpoint, EndpointPort, EndpointSlice, Protocol, Service, ServiceName, ServicePort, ServiceSnapshot,
    ServiceType, TrafficPolicy,
};
use crate::network::nft::Protocol as Transport;
use crate::network::nft::services::{ServiceAddress, Side, Target};

const IP: &str = "10.96.0.9";

fn service() -> Service {
    let port = ServicePort { port: 80, node_port: 30080, ..ServicePort::default() };
    Service { cluster_ips: vec![IP.parse().unwrap()], ports: vec![port], ..Service::default() }
}

/// A ready endpoint on a node.
fn ready(ip: &str, node: &str) -> Endpoint {
    Endpoint {
        addresses: vec![ip.parse().unwrap()],
        is_ready: true,
        is_serving: true,
        node_name: node.into(),
        ..Endpoint::default()
    }
}

fn draining(ip: &str, node: &str) -> Endpoint {
    Endpoint { is_ready: false, is_terminating: true, ..ready(ip, node) }
}

fn starting(ip: &str, node: &str) -> Endpoint {
    Endpoint { is_ready: false, is_serving: false, ..ready(ip, node) }
}

fn slice(name: &str, ports: Vec<EndpointPort>, endpoints: Vec<Endpoint>) -> EndpointSlice {
    let service = Arc::new(ServiceName::new("default", "web"));
    EndpointSlice { name: name.into(), service, ports, endpoints, has_other_proxy: false }
}

fn snapshot(service: Service, slices: Vec<EndpointSlice>) -> ServiceSnapshot {
    let name = Arc::new(ServiceName::new("default", "web"));
    let mut snapshot = ServiceSnapshot { is_known: true, ..ServiceSnapshot::default() };
    snapshot.services.insert(name.clone(), Arc::new(service));
    snapshot.endpoint_slices.insert(name, Arc::new(slices.into_iter().map(Arc::new).collect()));
    snapshot
}

/// The node `n1` in zone `a`.
fn node() -> NodeFacts {
    NodeFacts { name: "n1".to_owned(), zone: "a".to_owned(), cidrs: vec!["10.0.1.0/24".parse().unwrap()] }
}

fn planned(service: Service, endpoints: Vec<Endpoint>) -> Plan {
    let ports = vec![EndpointPort { port: 8080, ..EndpointPort::default() }];
    plan(&snapshot(service, vec![slice("web-a", ports, endpoints)]), &node())
}

/// Where a client of one side goes: endpoints, `reject`, `drop`, or nothing if there is no rule.
fn to(plan: &Plan, side: Side, at: &str) -> String {
    let at: SocketAddr = at.parse().unwrap();
    let at = ServiceAddress { ip: at.ip(), protocol: Transport::Tcp, port: at.port() };
    match plan.rules.targets.get(&(side, at)) {
        None => String::new(),
        Some(Target::Reject) => "reject".to_owned(),
        Some(Target::Drop) => "drop".to_owned(),
        Some(Target::Group(id)) => {
            let endpoints: Vec<String> =
                plan.rules.groups[id].endpoints.iter().map(ToString::to_string).collect();
            endpoints.join(" ")
        }
    }
}

fn is_masqueraded(plan: &Plan, at: &str) -> bool {
    let at: SocketAddr = at.parse().unwrap();
    let at = ServiceAddress { ip: at.ip(), protocol: Transport::Tcp, port: at.port() };
    plan.rules.masqueraded.contains(&at)
}

const CLUSTER: &str = "10.96.0.9:80";
const NODE_PORT: &str = "0.0.0.0:30080";

#[test]
fn connections_go_to_ready_endpoints_of_all_nodes() {
    let endpoints = vec![ready("10.0.1.2", "n1"), ready("10.0.2.2", "n2"), starting("10.0.2.3", "n2")];
    let plan = planned(service(), endpoints);
    for side in Side::BOTH {
        assert_eq!(to(&plan, side, CLUSTER), "10.0.1.2:8080 10.0.2.2:8080");
        assert_eq!(to(&plan, side, NODE_PORT), "", "the Service has no node port");
    }
    assert!(is_masqueraded(&plan, CLUSTER), "clients that are no pods of this node");
    assert_eq!(plan.rules.own_endpoints, BTreeSet::from(["10.0.1.2".parse().unwrap()]));
    assert!(plan.health_checks.is_empty());
}

#[test]
fn a_service_without_endpoints_rejects_connections() {
    assert_eq!(to(&planned(service(), vec![]), Side::Inside, CLUSTER), "reject");
    let without_slices = plan(&snapshot(service(), vec![]), &node());
    assert_eq!(to(&without_slices, Side::Outside, CLUSTER), "reject");
    let unready = planned(service(), vec![starting("10.0.1.2", "n1")]);
    assert_eq!(to(&unready, Side::Inside, CLUSTER), "reject");
}

#[test]
fn services_without_an_address_or_for_another_proxy_get_no_rules() {
    let headless = Service { is_headless: true, cluster_ips: vec![], ..service() };
    let alias = Service { service_type: ServiceType::ExternalName, ..service() };
    let other = Service { has_other_proxy: true, ..service() };
    for service in [headless, alias, other] {
        let plan = planned(service, vec![ready("10.0.1.2", "n1")]);
        assert!(plan.rules.targets.is_empty() && plan.rules.groups.is_empty());
    }
}

#[test]
fn draining_endpoints_serve_when_no_ready_one_is_left() {
    let both = planned(service(), vec![ready("10.0.1.2", "n1"), draining("10.0.1.3", "n1")]);
    assert_eq!(to(&both, Side::Inside, CLUSTER), "10.0.1.2:8080");
    let rest = planned(service(), vec![starting("10.0.1.2", "n1"), draining("10.0.1.3", "n1")]);
    assert_eq!(to(&rest, Side::Inside, CLUSTER), "10.0.1.3:8080");
}

#[test]
fn external_policy_local_restricts_only_clients_from_outside() {
    let balanced = Service {
        service_type: ServiceType::LoadBalancer,
        external_traffic_policy: TrafficPolicy::Local,
        external_ips: vec!["192.0.2.7".parse().unwrap()],
        load_balancer_ips: vec!["198.51.100.1".parse().unwrap()],
        health_check_node_port: 31000,
        ..service()
    };
    let all = vec![ready("10.0.1.2", "n1"), ready("10.0.2.2", "n2")];
    let plan = planned(balanced.clone(), all);
    for at in [NODE_PORT, "192.0.2.7:80", "198.51.100.1:80"] {
        assert_eq!(to(&plan, Side::Outside, at), "10.0.1.2:8080", "{at}");
        assert_eq!(to(&plan, Side::Inside, at), "10.0.1.2:8080 10.0.2.2:8080", "{at}");
        assert!(!is_masqueraded(&plan, at), "{at}: endpoints see the client");
    }
    assert_eq!(to(&plan, Side::Outside, CLUSTER), "10.0.1.2:8080 10.0.2.2:8080");
    assert_eq!(plan.health_checks[&31000].1, 1);
    let elsewhere = planned(balanced.clone(), vec![ready("10.0.2.2", "n2")]);
    assert_eq!(to(&elsewhere, Side::Outside, NODE_PORT), "drop");
    assert_eq!(elsewhere.health_checks[&31000].1, 0);
    assert_eq!(to(&planned(balanced, vec![]), Side::Outside, NODE_PORT), "reject");
}

#[test]
fn external_policy_cluster_masquerades_clients_from_outside() {
    let open = Service { service_type: ServiceType::NodePort, ..service() };
    let plan = planned(open, vec![ready("10.0.2.2", "n2")]);
    assert_eq!(to(&plan, Side::Outside, NODE_PORT), "10.0.2.2:8080");
    assert!(is_masqueraded(&plan, NODE_PORT));
}

#[test]
fn internal_policy_local_keeps_connections_on_the_node() {
    let local = Service { internal_traffic_policy: TrafficPolicy::Local, ..service() };
    let both = planned(local.clone(), vec![ready("10.0.1.2", "n1"), ready("10.0.2.2", "n2")]);
    assert_eq!(to(&both, Side::Inside, CLUSTER), "10.0.1.2:8080");
    let drained = planned(local.clone(), vec![draining("10.0.1.2", "n1"), ready("10.0.2.2", "n2")]);
    assert_eq!(to(&drained, Side::Inside, CLUSTER), "10.0.1.2:8080");
    let elsewhere = planned(local, vec![ready("10.0.2.2", "n2")]);
    assert_eq!(to(&elsewhere, Side::Inside, CLUSTER), "drop");
}

#[test]
fn hints_apply_only_if_every_ready_endpoint_has_them_and_one_matches() {
    let zone = |ip: &str, zones: &[&str]| Endpoint {
        zone_hints: zones.iter().map(|zone| (*zone).into()).collect(),
        ..ready(ip, "n2")
    };
    let choose = |endpoints: Vec<Endpoint>| to(&planned(service(), endpoints), Side::Inside, CLUSTER);
    let both = "10.0.2.2:8080 10.0.2.3:8080";
    assert_eq!(choose(vec![zone("10.0.2.2", &["a"]), zone("10.0.2.3", &["b"])]), "10.0.2.2:8080");
    assert_eq!(choose(vec![zone("10.0.2.2", &["a"]), zone("10.0.2.3", &[])]), both);
    assert_eq!(choose(vec![zone("10.0.2.2", &["c"]), zone("10.0.2.3", &["b"])]), both);
    let unready = Endpoint { is_ready: false, is_serving: false, ..zone("10.0.2.4", &[]) };
    assert_eq!(choose(vec![zone("10.0.2.2", &["a"]), zone("10.0.2.3", &["b"]), unready]), "10.0.2.2:8080");
    let node = |ip: &str, name: &str| Endpoint { node_hints: vec![name.into()], ..zone(ip, &["b"]) };
    assert_eq!(choose(vec![node("10.0.2.2", "n2"), node("10.0.2.3", "n1")]), "10.0.2.3:8080");
}

#[test]
fn ports_are_matched_by_name_and_protocol_and_duplicates_count_once() {
    let port = |name: &str, protocol, port| ServicePort { name: name.into(), protocol, port, node_port: 0 };
    let ports = vec![
        port("http", Protocol::Tcp, 80),
        port("dns", Protocol::Udp, 53),
        port("dns-tcp", Protocol::Tcp, 53),
    ];
    let service = Service { ports, ..service() };
    let to_port = |name: &str, protocol, port| EndpointPort { name: name.into(), protocol, port };
    let http = || slice("web-a", vec![to_port("http", Protocol::Tcp, 8080)], vec![ready("10.0.1.2", "n1")]);
    let other = slice("web-b", vec![to_port("http", Protocol::Tcp, 9090)], vec![ready("10.0.1.3", "n1")]);
    let names = slice("web-c", vec![to_port("dns", Protocol::Udp, 5353)], vec![ready("10.0.1.4", "n1")]);
    let again = EndpointSlice { name: "web-d".into(), ..http() };
    let plan = plan(&snapshot(service, vec![http(), other, names, again]), &node());
    assert_eq!(
        to(&plan, Side::Inside, CLUSTER),
        "10.0.1.2:8080 10.0.1.3:9090",
        "a named target port may differ"
    );
    assert_eq!(to(&plan, Side::Inside, "10.96.0.9:53"), "reject", "no endpoint has the port dns-tcp");
    let udp = ServiceAddress { ip: IP.parse().unwrap(), protocol: Transport::Udp, port: 53 };
    assert!(matches!(plan.rules.targets[&(Side::Inside, udp)], Target::Group(_)));
}

#[test]
fn each_family_has_its_own_endpoints() {
    let service = Service { cluster_ips: vec![IP.parse().unwrap(), "fd00::9".parse().unwrap()], ..service() };
    let service = Service { service_type: ServiceType::NodePort, affinity_seconds: Some(60), ..service };
    let plan = planned(service, vec![ready("10.0.1.2", "n1"), ready("fd01::2", "n1")]);
    assert_eq!(to(&plan, Side::Inside, CLUSTER), "10.0.1.2:8080");
    assert_eq!(to(&plan, Side::Inside, "[fd00::9]:80"), "[fd01::2]:8080");
    assert_eq!(to(&plan, Side::Outside, "[::]:30080"), "[fd01::2]:8080");
    assert!(plan.rules.groups.values().all(|group| group.affinity_seconds == Some(60)));
}

#[test]
fn the_first_service_has_an_address_that_two_claim() {
    let ports = || vec![EndpointPort { port: 8080, ..EndpointPort::default() }];
    let mut both = snapshot(service(), vec![slice("web-a", ports(), vec![ready("10.0.1.2", "n1")])]);
    let name = Arc::new(ServiceName::new("default", "zoo"));
    both.services.insert(name.clone(), Arc::new(service()));
    let of_zoo =
        EndpointSlice { service: name.clone(), ..slice("zoo-a", ports(), vec![ready("10.0.1.9", "n1")]) };
    both.endpoint_slices.insert(name, Arc::new(vec![Arc::new(of_zoo)]));
    assert_eq!(to(&plan(&both, &node()), Side::Inside, CLUSTER), "10.0.1.2:8080");
}

#[test]
fn no_external_ip_takes_the_cluster_ip_of_another_service() {
    let ports = || vec![EndpointPort { port: 8080, ..EndpointPort::default() }];
    let thief = Service {
        cluster_ips: vec!["10.96.0.1".parse().unwrap()],
        external_ips: vec![IP.parse().unwrap()],
        external_traffic_policy: TrafficPolicy::Local,
        ..service()
    };
    let mut both = snapshot(thief, vec![slice("web-a", ports(), vec![ready("10.0.1.66", "n1")])]);
    let name = Arc::new(ServiceName::new("default", "zoo"));
    let honest = Service { service_type: ServiceType::NodePort, external_ips: vec![], ..service() };
    both.services.insert(name.clone(), Arc::new(honest));
    let of_zoo =
        EndpointSlice { service: name.clone(), ..slice("zoo-a", ports(), vec![ready("10.0.1.2", "n1")]) };
    both.endpoint_slices.insert(name, Arc::new(vec![Arc::new(of_zoo)]));
    let plan = plan(&both, &node());
    for side in Side::BOTH {
        assert_eq!(
            to(&plan, side, CLUSTER),
            "10.0.1.2:8080",
            "the first one by name has it only as external IP"
        );
        assert_eq!(to(&plan, side, "10.96.0.1:80"), "10.0.1.66:8080");
    }
    assert_eq!(plan.rules.cluster_ips.len(), 2);
}

#[test]
fn an_address_that_is_in_use_keeps_its_masquerading() {
    let external = || vec!["192.0.2.7".parse().unwrap()];
    let local = TrafficPolicy::Local;
    let first = Service { external_ips: external(), external_traffic_policy: local, ..service() };
    let mut both = snapshot(first, vec![]);
    let second =
        Service { cluster_ips: vec!["10.96.0.1".parse().unwrap()], external_ips: external(), ..service() };
    both.services.insert(Arc::new(ServiceName::new("default", "zoo")), Arc::new(second));
    let plan = plan(&both, &node());
    assert!(
        !is_masqueraded(&plan, "192.0.2.7:80"),
        "the Service that has the address keeps the client address"
    );
}

#[test]
fn udp_connections_stay_with_every_endpoint_that_serves() {
    let port = ServicePort { protocol: Protocol::Udp, port: 53, ..ServicePort::default() };
    let names = Service { ports: vec![port], ..service() };
    let ports = || vec![EndpointPort { protocol: Protocol::Udp, port: 53, ..EndpointPort::default() }];
    let endpoints = vec![ready("10.0.1.2", "n1"), draining("10.0.1.3", "n1"), starting("10.0.1.4", "n1")];
    let plan = plan(&snapshot(names, vec![slice("web-a", ports(), endpoints)]), &node());
    let at: SocketAddr = "10.96.0.9:53".parse().unwrap();
    let expected = ["10.0.1.2:53", "10.0.1.3:53"].map(|one| one.parse().unwrap());
    assert_eq!(plan.rules.serving_udp[&at], BTreeSet::from(expected));
    assert_eq!(
        plan.rules.groups.values().next().unwrap().endpoints.len(),
        1,
        "new connections go to the ready one"
    );
}

#[test]
fn health_checks_ignore_slices_for_another_proxy() {
    let balanced = Service {
        service_type: ServiceType::LoadBalancer,
        external_traffic_policy: TrafficPolicy::Local,
        health_check_node_port: 31000,
        ..service()
    };
    let ports = vec![EndpointPort { port: 8080, ..EndpointPort::default() }];
    let other =
        EndpointSlice { has_other_proxy: true, ..slice("web-a", ports, vec![ready("10.0.1.2", "n1")]) };
    assert_eq!(plan(&snapshot(balanced, vec![other]), &node()).health_checks[&31000].1, 0);
}

#[test]
fn source_ranges_restrict_only_addresses_of_the_load_balancer() {
    let balanced = Service {
        service_type: ServiceType::LoadBalancer,
        load_balancer_ips: vec!["198.51.100.1".parse().unwrap()],
        external_ips: vec!["192.0.2.7".parse().unwrap()],
        source_ranges: vec![" 203.0.113.7/24".into(), "fd00::/8".into()],
        ..service()
    };
    let sources = planned(balanced, vec![ready("10.0.1.2", "n1")]).rules.sources;
    let found: Vec<_> =
        sources.iter().map(|(at, ranges)| (at.ip.to_string(), ranges[0].to_string())).collect();
    assert_eq!(found, [("198.51.100.1".to_owned(), "203.0.113.0/24".to_owned())]);
    assert_eq!(sources.values().next().unwrap().len(), 1, "the other one is of IPv6");
}
