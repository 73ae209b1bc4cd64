//! The examples of the Kubernetes DNS specification 1.1.0, one by one, and names that do not exist.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::net::IpAddr;
use std::sync::Arc;

use hickory_proto::rr::RecordType;

use super::{Answer, Question, Zone};
use crate::cluster::services::{
    Endpoint, EndpointPort, EndpointSlice, Protocol, Service, ServiceName, ServicePort, ServiceSnapshot,
    ServiceType,
};
use crate::dns::index::Index;

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn ports(named: &[(&str, Protocol, u16)]) -> Vec<ServicePort> {
    let port = |&(name, protocol, port): &(&str, Protocol, u16)| ServicePort {
        name: name.into(),
        protocol,
        port,
        node_port: 0,
    };
    named.iter().map(port).collect()
}

fn cluster_ip(addresses: &[&str], named: &[(&str, Protocol, u16)]) -> Service {
    Service { cluster_ips: ips(addresses), ports: ports(named), ..Service::default() }
}

fn headless(named: &[(&str, Protocol, u16)]) -> Service {
    Service { is_headless: true, ports: ports(named), ..Service::default() }
}

fn external(name: &str) -> Service {
    Service { service_type: ServiceType::ExternalName, external_name: name.into(), ..Service::default() }
}

/// An EndpointSlice with endpoints of these hostnames and addresses. A hostname that begins with `!` is not ready.
fn slice(name: &str, of: &str, named: &[(&str, Protocol, u16)], endpoints: &[(&str, &str)]) -> EndpointSlice {
    let port =
        |&(name, protocol, port): &(&str, Protocol, u16)| EndpointPort { name: name.into(), protocol, port };
    let endpoint = |&(hostname, address): &(&str, &str)| Endpoint {
        addresses: ips(&[address]),
        is_ready: !hostname.starts_with('!'),
        hostname: hostname.trim_start_matches('!').into(),
        ..Endpoint::default()
    };
    EndpointSlice {
        name: name.into(),
        service: Arc::new(ServiceName::new("default", of)),
        ports: named.iter().map(port).collect(),
        endpoints: endpoints.iter().map(endpoint).collect(),
        has_other_proxy: false,
    }
}

/// A snapshot of the namespace `default`.
pub(crate) fn snapshot(services: Vec<(&str, Service)>, slices: Vec<EndpointSlice>) -> ServiceSnapshot {
    let mut snapshot = ServiceSnapshot { is_known: true, ..ServiceSnapshot::default() };
    for (name, service) in services {
        snapshot.services.insert(Arc::new(ServiceName::new("default", name)), Arc::new(service));
    }
    for slice in slices {
        let slices = snapshot.endpoint_slices.entry(slice.service.clone()).or_default();
        Arc::make_mut(slices).push(Arc::new(slice));
    }
    snapshot
}

/// The Services in the examples of the specification, and some for its other rules.
pub(crate) fn example() -> ServiceSnapshot {
    let https = [("https", Protocol::Tcp, 443)];
    let services = vec![
        ("kubernetes", cluster_ip(&["10.3.0.1"], &https)),
        (
            "dual",
            cluster_ip(&["10.3.0.9", "fd00:3::9"], &[("dns", Protocol::Udp, 53), ("", Protocol::Tcp, 80)]),
        ),
        ("headless", headless(&https)),
        ("empty", headless(&https)),
        ("foo", external("www.example.com")),
        ("inside", external("kubernetes.default.svc.cluster.local.")),
        ("loop", external("loop.default.svc.cluster.local")),
    ];
    let endpoints =
        [("my-pet", "10.3.0.100"), ("my-pet-2", "10.3.0.101"), ("", "10.3.0.102"), ("!new", "10.3.0.103")];
    let slices = vec![
        slice("headless-1", "headless", &https, &endpoints),
        slice("headless-2", "headless", &https, &[("my-pet", "fd00:4::100")]),
        slice("empty-1", "empty", &https, &[("!a", "10.3.0.104")]),
        slice("kubernetes-1", "kubernetes", &https, &[("master-0", "192.0.2.1"), ("", "192.0.2.2")]),
    ];
    snapshot(services, slices)
}

fn answer(name: &str, kind: RecordType) -> Answer {
    let mut index = Index::default();
    index.apply(Arc::new(example()));
    ask(&index, name, kind)
}

fn ask(index: &Index, name: &str, kind: RecordType) -> Answer {
    let name = hickory_proto::rr::Name::from_ascii(name).unwrap();
    let question = Question { name: &name, kind, limit: 100, rotation: 0 };
    Zone::new("cluster.local").unwrap().answer(index, &ips(&["10.244.1.1"]), &question)
}

/// The answer as text: one line per record, without times to live.
fn text(answer: &Answer) -> Vec<String> {
    let line = |record: &hickory_proto::rr::Record| {
        format!("{} {} {}", record.name, record.record_type(), record.data)
    };
    match answer {
        Answer::Records { answers, .. } => answers.iter().map(line).collect(),
        Answer::Alias(record, _) => vec![line(record)],
        Answer::NoData(_) => vec!["NODATA".to_owned()],
        Answer::NoName(_) => vec!["NXDOMAIN".to_owned()],
        Answer::OtherZone => vec!["other zone".to_owned()],
    }
}

#[track_caller]
fn check(name: &str, kind: RecordType, expected: &[&str]) {
    assert_eq!(text(&answer(name, kind)), expected, "{name} {kind}");
}

#[test]
fn the_schema_version_is_a_text_record() {
    check("dns-version.cluster.local.", RecordType::TXT, &["dns-version.cluster.local. TXT 1.1.0"]);
    check("dns-version.cluster.local.", RecordType::A, &["NODATA"]);
}

#[test]
fn a_service_with_cluster_ip_has_address_records() {
    let name = "kubernetes.default.svc.cluster.local.";
    check(name, RecordType::A, &["kubernetes.default.svc.cluster.local. A 10.3.0.1"]);
    check(name, RecordType::AAAA, &["NODATA"]);
    check("dual.default.svc.cluster.local.", RecordType::A, &["dual.default.svc.cluster.local. A 10.3.0.9"]);
    check(
        "dual.default.svc.cluster.local.",
        RecordType::AAAA,
        &["dual.default.svc.cluster.local. AAAA fd00:3::9"],
    );
    check("dual.default.svc.cluster.local.", RecordType::MX, &["NODATA"]);
}

#[test]
fn a_named_port_of_a_service_has_an_srv_record() {
    let name = "_https._tcp.kubernetes.default.svc.cluster.local.";
    let expected = format!("{name} SRV 0 100 443 kubernetes.default.svc.cluster.local.");
    check(name, RecordType::SRV, &[&expected]);
    check(name, RecordType::A, &["NODATA"]);
    let Answer::Records { additionals, .. } = answer(name, RecordType::SRV) else { panic!("no records") };
    assert_eq!(additionals.len(), 1);
    assert_eq!(additionals[0].data.to_string(), "10.3.0.1");
    check("_tcp.kubernetes.default.svc.cluster.local.", RecordType::SRV, &["NODATA"]);
    check("_udp.kubernetes.default.svc.cluster.local.", RecordType::SRV, &["NXDOMAIN"]);
    check("_https._udp.kubernetes.default.svc.cluster.local.", RecordType::SRV, &["NXDOMAIN"]);
    check("_._tcp.dual.default.svc.cluster.local.", RecordType::SRV, &["NXDOMAIN"]);
    check("_tcp.dual.default.svc.cluster.local.", RecordType::SRV, &["NXDOMAIN"]);
}

#[test]
fn the_name_of_a_service_has_srv_records_of_all_ports() {
    let name = "dual.default.svc.cluster.local.";
    check(
        name,
        RecordType::SRV,
        &[53, 80].map(|port| format!("{name} SRV 0 100 {port} {name}")).each_ref().map(String::as_str),
    );
    let name = "headless.default.svc.cluster.local.";
    let Answer::Records { answers, additionals } = answer(name, RecordType::SRV) else {
        panic!("no records")
    };
    assert_eq!((answers.len(), additionals.len()), (3, 4));
    check("empty.default.svc.cluster.local.", RecordType::SRV, &["NXDOMAIN"]);
    check(
        "foo.default.svc.cluster.local.",
        RecordType::SRV,
        &["foo.default.svc.cluster.local. CNAME www.example.com."],
    );
}

#[test]
fn an_endpoint_without_hostname_of_a_service_with_cluster_ip_has_a_name_by_its_address() {
    let name = "192-0-2-2.kubernetes.default.svc.cluster.local.";
    check(name, RecordType::A, &[&format!("{name} A 192.0.2.2")]);
    check(name, RecordType::AAAA, &["NODATA"]);
    check("192-0-2-1.kubernetes.default.svc.cluster.local.", RecordType::A, &["NXDOMAIN"]);
    check("192-0-2-3.kubernetes.default.svc.cluster.local.", RecordType::A, &["NXDOMAIN"]);
}

#[test]
fn a_question_for_any_type_gets_addresses_of_both_families() {
    let name = "dual.default.svc.cluster.local.";
    check(name, RecordType::ANY, &[&format!("{name} A 10.3.0.9"), &format!("{name} AAAA fd00:3::9")]);
    let Answer::Records { answers, .. } = answer("cluster.local.", RecordType::ANY) else { panic!("none") };
    assert_eq!(answers.len(), 2);
}

#[test]
fn names_that_no_service_can_have_do_not_depend_on_the_services() {
    let zone = Zone::new("cluster.local").unwrap();
    let needs = |name: &str| {
        zone.needs_services(&hickory_proto::rr::Name::from_ascii(format!("{name}.cluster.local.")).unwrap())
    };
    for name in [
        "default.svc",
        "web.default.svc",
        "A.web.default.SVC",
        "_tcp.web.default.svc",
        "_a._tcp.web.default.svc",
    ] {
        assert!(needs(name), "{name}");
    }
    for name in [
        "example.com",
        "www.example.com.default.svc",
        "_a.web.default.svc",
        "a._tcp.web.default.svc",
        "svc",
        "a.b.c._a._tcp.web.default.svc",
        "10-1-2-3.default.pod",
    ] {
        assert!(!needs(name), "{name}");
    }
}

#[test]
fn a_cluster_ip_has_a_pointer_record() {
    let expected = "1.0.3.10.in-addr.arpa. PTR kubernetes.default.svc.cluster.local.";
    check("1.0.3.10.in-addr.arpa.", RecordType::PTR, &[expected]);
    check("1.0.3.10.in-addr.arpa.", RecordType::A, &["NODATA"]);
    let v6 = format!("9.{}3.0.0.0.0.0.d.f.ip6.arpa.", "0.".repeat(23));
    check(&v6, RecordType::PTR, &[&format!("{v6} PTR dual.default.svc.cluster.local.")]);
}

#[test]
fn a_headless_service_has_an_address_record_per_ready_endpoint() {
    let name = "headless.default.svc.cluster.local.";
    let expected = ["10.3.0.100", "10.3.0.101", "10.3.0.102"].map(|ip| format!("{name} A {ip}"));
    check(name, RecordType::A, &expected.each_ref().map(String::as_str));
    check(name, RecordType::AAAA, &[&format!("{name} AAAA fd00:4::100")]);
}

#[test]
fn a_headless_service_without_ready_endpoints_does_not_exist() {
    check("empty.default.svc.cluster.local.", RecordType::A, &["NXDOMAIN"]);
    check("empty.default.svc.cluster.local.", RecordType::AAAA, &["NXDOMAIN"]);
    check("_https._tcp.empty.default.svc.cluster.local.", RecordType::SRV, &["NXDOMAIN"]);
}

#[test]
fn the_hostname_of_an_endpoint_has_address_records() {
    let name = "my-pet.headless.default.svc.cluster.local.";
    check(name, RecordType::A, &[&format!("{name} A 10.3.0.100")]);
    check(name, RecordType::AAAA, &[&format!("{name} AAAA fd00:4::100")]);
    let generated = "10-3-0-102.headless.default.svc.cluster.local.";
    check(generated, RecordType::A, &[&format!("{generated} A 10.3.0.102")]);
    check("new.headless.default.svc.cluster.local.", RecordType::A, &["NXDOMAIN"]);
    check("a.my-pet.headless.default.svc.cluster.local.", RecordType::A, &["NXDOMAIN"]);
    let of_cluster_ip = "master-0.kubernetes.default.svc.cluster.local.";
    check(of_cluster_ip, RecordType::A, &[&format!("{of_cluster_ip} A 192.0.2.1")]);
}

#[test]
fn a_named_port_of_a_headless_service_has_an_srv_record_per_hostname() {
    let name = "_https._tcp.headless.default.svc.cluster.local.";
    let mut found = text(&answer(name, RecordType::SRV));
    found.sort();
    let expected = ["10-3-0-102", "my-pet-2", "my-pet"]
        .map(|host| format!("{name} SRV 0 100 443 {host}.headless.default.svc.cluster.local."));
    assert_eq!(found, expected);
    let Answer::Records { additionals, .. } = answer(name, RecordType::SRV) else { panic!("no records") };
    assert_eq!(additionals.len(), 4, "one address more than hostnames");
}

#[test]
fn an_endpoint_of_a_headless_service_has_a_pointer_record() {
    let expected = "100.0.3.10.in-addr.arpa. PTR my-pet.headless.default.svc.cluster.local.";
    check("100.0.3.10.in-addr.arpa.", RecordType::PTR, &[expected]);
    let generated = "102.0.3.10.in-addr.arpa. PTR 10-3-0-102.headless.default.svc.cluster.local.";
    check("102.0.3.10.in-addr.arpa.", RecordType::PTR, &[generated]);
    check("103.0.3.10.in-addr.arpa.", RecordType::PTR, &["other zone"]);
    check("1.2.0.192.in-addr.arpa.", RecordType::PTR, &["other zone"]);
    check("0.3.10.in-addr.arpa.", RecordType::PTR, &["other zone"]);
}

#[test]
fn an_external_name_is_an_alias() {
    let expected = "foo.default.svc.cluster.local. CNAME www.example.com.";
    for kind in [RecordType::A, RecordType::AAAA, RecordType::CNAME] {
        check("foo.default.svc.cluster.local.", kind, &[expected]);
    }
    check("a.foo.default.svc.cluster.local.", RecordType::A, &["NXDOMAIN"]);
}

#[test]
fn a_pod_has_an_address_record_of_the_address_in_its_name() {
    let name = "10-1-2-3.default.pod.cluster.local.";
    check(name, RecordType::A, &[&format!("{name} A 10.1.2.3")]);
    check(name, RecordType::AAAA, &["NODATA"]);
    let v6 = "fd00--12.any.pod.cluster.local.";
    check(v6, RecordType::AAAA, &[&format!("{v6} AAAA fd00::12")]);
    check("10-1-2-300.default.pod.cluster.local.", RecordType::A, &["NXDOMAIN"]);
    check("web.default.pod.cluster.local.", RecordType::A, &["NXDOMAIN"]);
}

#[test]
fn names_are_compared_without_regard_to_case_and_answered_in_the_clients_spelling() {
    let name = "KuberNetes.Default.SVC.cluster.LOCAL.";
    check(name, RecordType::A, &[&format!("{name} A 10.3.0.1")]);
}

#[test]
fn names_above_services_exist_without_records() {
    for name in
        ["cluster.local.", "svc.cluster.local.", "default.svc.cluster.local.", "any.pod.cluster.local."]
    {
        check(name, RecordType::A, &["NODATA"]);
    }
    for name in
        ["x.cluster.local.", "x.svc.cluster.local.", "x.default.svc.cluster.local.", "a.b.cluster.local."]
    {
        check(name, RecordType::A, &["NXDOMAIN"]);
        check(name, RecordType::AAAA, &["NXDOMAIN"]);
    }
    check("*.cluster.local.", RecordType::NS, &["NXDOMAIN"]);
    check("example.com.", RecordType::A, &["other zone"]);
    check("notcluster.local.", RecordType::A, &["other zone"]);
}

#[test]
fn the_zone_has_a_name_server_with_the_address_of_the_node() {
    check("cluster.local.", RecordType::NS, &["cluster.local. NS ns.dns.cluster.local."]);
    check("ns.dns.cluster.local.", RecordType::A, &["ns.dns.cluster.local. A 10.244.1.1"]);
    let Answer::NoName(soa) = answer("x.cluster.local.", RecordType::A) else { panic!("it exists") };
    assert_eq!((soa.name.to_string(), soa.record_type()), ("cluster.local.".to_owned(), RecordType::SOA));
}

#[test]
fn the_order_of_addresses_changes_and_their_number_is_limited() {
    let mut index = Index::default();
    index.apply(Arc::new(example()));
    let name = "headless.default.svc.cluster.local.".parse().unwrap();
    let zone = Zone::new("cluster.local").unwrap();
    let last = |rotation, limit| {
        let question = Question { name: &name, kind: RecordType::A, limit, rotation };
        let Answer::Records { answers, .. } = zone.answer(&index, &[], &question) else {
            panic!("no records")
        };
        answers
            .iter()
            .map(|one| one.data.to_string().rsplit('.').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(last(1, 9), ["101", "102", "100"]);
    assert_eq!(last(5, 2), ["102", "100"]);
}

#[test]
fn an_update_changes_only_the_records_of_changed_services() {
    let mut index = Index::default();
    let first = example();
    index.apply(Arc::new(first.clone()));
    let mut second = first.clone();
    let name = Arc::new(ServiceName::new("default", "kubernetes"));
    second.services.insert(name.clone(), Arc::new(cluster_ip(&["10.3.0.2"], &[])));
    second.services.remove(&ServiceName::new("default", "headless"));
    index.apply(Arc::new(second));
    let found = |name: &str, kind| text(&ask(&index, name, kind));
    let address = "kubernetes.default.svc.cluster.local. A 10.3.0.2";
    assert_eq!(found("kubernetes.default.svc.cluster.local.", RecordType::A), [address]);
    assert_eq!(found("1.0.3.10.in-addr.arpa.", RecordType::PTR), ["other zone"]);
    assert_eq!(found("headless.default.svc.cluster.local.", RecordType::A), ["NXDOMAIN"]);
    assert_eq!(found("100.0.3.10.in-addr.arpa.", RecordType::PTR), ["other zone"]);
    index.apply(Arc::new(ServiceSnapshot { is_known: true, ..ServiceSnapshot::default() }));
    assert_eq!(text(&ask(&index, "default.svc.cluster.local.", RecordType::A)), ["NXDOMAIN"]);
    assert_eq!(text(&ask(&index, "2.0.3.10.in-addr.arpa.", RecordType::PTR)), ["other zone"]);
}

#[test]
fn a_domain_that_is_no_name_is_rejected() {
    assert!(Zone::new("a..b").is_err() && Zone::new("").is_err());
    assert!(Zone::new("Corp.Example.").unwrap().contains(&"x.corp.example.".parse().unwrap()));
}
