//! Tests of the informer: fields of API objects, and deltas.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::IpAddr;
use std::sync::Arc;

use client::Delta;
use serde_json::{Value, json};

use super::objects::{ApiService, ApiSlice};
use super::snapshot::Informer;
use super::{Protocol, Service, ServiceName, ServiceType, TrafficPolicy};

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A Service of the namespace `default` with one TCP port.
pub(super) fn service(name: &str, ip: &str) -> ApiService {
    let metadata = json!({"namespace": "default", "name": name});
    let ports = json!([{"port": 80, "targetPort": "http", "protocol": "TCP"}]);
    read(json!({"metadata": metadata, "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": ports}}))
}

/// An EndpointSlice of the namespace `default` with one TCP port.
pub(super) fn slice(name: &str, service: &str, addresses: &[&str]) -> ApiSlice {
    let labels = json!({"kubernetes.io/service-name": service});
    let endpoints: Vec<Value> =
        addresses.iter().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect();
    let metadata = json!({"namespace": "default", "name": name, "labels": labels});
    read(json!({"metadata": metadata, "ports": [{"name": "", "port": 8080}], "endpoints": endpoints}))
}

/// An informer that has listed only the Service `default/kubernetes`.
pub(super) fn informer() -> Informer {
    let mut informer = Informer::default();
    informer.apply_services(Delta::Replaced(vec![service("kubernetes", "10.96.0.1")], "1".to_owned()));
    informer.apply_slices(Delta::Replaced(Vec::new(), "1".to_owned()));
    informer
}

#[test]
fn services_that_the_api_server_does_not_list_are_forbidden_until_they_are_listed() {
    let mut unlisted = Informer::default();
    assert!(!unlisted.is_forbidden());
    unlisted.forbid();
    assert!(unlisted.is_forbidden() && unlisted.complete().is_none());
    let mut listed = informer();
    listed.forbid();
    assert!(!listed.is_forbidden(), "known Services stay known");
    assert!(listed.complete().is_some_and(|snapshot| snapshot.is_known && !snapshot.is_forbidden));
}

#[test]
fn fields_of_a_service_are_read() {
    let object: ApiService = read(json!({
        "metadata": {"namespace": "shop", "name": "web", "labels": {"service.kubernetes.io/headless": ""}},
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9", "fd00::9"],
            "externalIPs": ["192.0.2.7"], "ipFamilies": ["IPv4", "IPv6"], "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}, "externalTrafficPolicy": "Local",
            "internalTrafficPolicy": "Cluster", "healthCheckNodePort": 30001, "publishNotReadyAddresses": true,
            "ports": [{"name": "dns", "protocol": "UDP", "port": 53, "nodePort": 30053}],
        },
        "status": {"loadBalancer": {"ingress": [
            {"ip": "198.51.100.1", "ipMode": "VIP"}, {"ip": "198.51.100.2", "ipMode": "Proxy"}, {"hostname": "x"},
        ]}},
    }));
    let (name, service) = object.into_service();
    assert_eq!(name, ServiceName::new("shop", "web"));
    let ips = |all: &[&str]| all.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>();
    assert_eq!(service.service_type, ServiceType::LoadBalancer);
    assert_eq!(service.cluster_ips, ips(&["10.96.0.9", "fd00::9"]));
    assert_eq!(service.external_ips, ips(&["192.0.2.7"]));
    assert_eq!(service.load_balancer_ips, ips(&["198.51.100.1"]), "ipMode Proxy is not for nodes");
    assert_eq!(service.affinity_seconds, Some(60));
    assert_eq!(service.external_traffic_policy, TrafficPolicy::Local);
    assert_eq!(service.internal_traffic_policy, TrafficPolicy::Cluster);
    assert_eq!((service.health_check_node_port, service.has_other_proxy), (30001, true));
    let port = &service.ports[0];
    assert_eq!((&*port.name, port.protocol, port.port, port.node_port), ("dns", Protocol::Udp, 53, 30053));
}

#[test]
fn a_headless_service_and_an_external_name_have_no_address() {
    let (_, headless) = service("db", "None").into_service();
    assert!(headless.is_headless && headless.cluster_ips.is_empty());
    let object = json!({"metadata": {"namespace": "a", "name": "b"},
        "spec": {"type": "ExternalName", "externalName": "example.org", "sessionAffinity": "None"}});
    let (_, alias) = read::<ApiService>(object).into_service();
    let expected = Service {
        service_type: ServiceType::ExternalName,
        external_name: "example.org".into(),
        ..Service::default()
    };
    assert_eq!(alias, expected);
}

#[test]
fn unknown_conditions_of_an_endpoint_count_as_ready() {
    let conditions = |value: Value| {
        let labels = json!({"kubernetes.io/service-name": "web"});
        let endpoints = json!([{"addresses": ["10.0.0.2"], "conditions": value, "nodeName": "n1",
            "targetRef": {"kind": "Pod", "name": "web-0"}, "hints": {"forZones": [{"name": "a"}]}}]);
        let object =
            json!({"metadata": {"namespace": "x", "name": "s", "labels": labels}, "endpoints": endpoints});
        let slice = read::<ApiSlice>(object).into_slice().unwrap();
        let one = &slice.endpoints[0];
        assert_eq!((&*one.node_name, &*one.target.1, &*one.zone_hints[0]), ("n1", "web-0", "a"));
        (one.is_ready, one.is_serving, one.is_terminating)
    };
    assert_eq!(conditions(json!({})), (true, true, false));
    assert_eq!(conditions(json!({"ready": false})), (false, false, false));
    let terminating = json!({"ready": false, "serving": true, "terminating": true});
    assert_eq!(conditions(terminating), (false, true, true));
}

#[test]
fn nothing_is_published_before_both_lists_or_without_the_service_of_the_api_server() {
    let mut informer = Informer::default();
    let list = |names: &[&str]| {
        Delta::Replaced(names.iter().map(|name| service(name, "10.96.0.1")).collect(), "1".to_owned())
    };
    informer.apply_services(list(&["kubernetes"]));
    assert_eq!(informer.complete(), None, "EndpointSlices are not listed yet");
    informer.apply_slices(Delta::Replaced(Vec::new(), "1".to_owned()));
    assert!(informer.complete().is_some());
    informer.apply_services(list(&[]));
    assert_eq!(informer.complete(), None, "the server has lost its data");
    informer.apply_services(Delta::Applied(service("kubernetes", "10.96.0.1")));
    assert_eq!(informer.complete().unwrap().services.len(), 1);
}

#[test]
fn slices_follow_their_service_and_an_unchanged_service_keeps_its_place() {
    let mut informer = informer();
    informer.apply_services(Delta::Applied(service("web", "10.96.0.9")));
    for (name, of) in [("web-b", "web"), ("web-a", "web"), ("kube", "kubernetes")] {
        informer.apply_slices(Delta::Applied(slice(name, of, &["10.0.0.2"])));
    }
    let before = informer.complete().unwrap();
    let web = ServiceName::new("default", "web");
    let names = |snapshot: &super::ServiceSnapshot| {
        snapshot.slices_of(&web).iter().map(|one| one.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&before), ["web-a", "web-b"]);
    informer.apply_slices(Delta::Applied(slice("web-a", "kubernetes", &["10.0.0.2"])));
    informer.apply_services(Delta::Replaced(
        vec![service("kubernetes", "10.96.0.1"), service("web", "10.96.0.9")],
        "9".to_owned(),
    ));
    let after = informer.complete().unwrap();
    assert_eq!(names(&after), ["web-b"], "the label names another Service now");
    assert!(Arc::ptr_eq(&before.services[&web], &after.services[&web]));
    let (one, other) = (&before.slices_of(&web)[1], &after.slices_of(&web)[0]);
    assert!(Arc::ptr_eq(one, other), "one change does not copy others");
    informer.apply_slices(Delta::Deleted(slice("web-b", "web", &[])));
    assert!(informer.complete().unwrap().slices_of(&web).is_empty());
}
