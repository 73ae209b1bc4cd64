//! Tests of addresses of pods and services.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn map<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

#[test]
fn proxy_path_contains_scheme_name_and_port() {
    for (text, expected) in [
        ("web", Some((false, "web", ""))),
        ("web:80", Some((false, "web", "80"))),
        ("web:", Some((false, "web", ""))),
        ("http:web:http", Some((false, "web", "http"))),
        ("https:web:", Some((true, "web", ""))),
        (":web:80", Some((false, "web", "80"))),
        ("ftp:web:80", None),
        (":80", None),
        ("", None),
        ("a:b:c:d", None),
    ] {
        let read = ProxyTarget::read(text, "pod");
        let found = read.as_ref().ok().map(|named| (named.tls, named.name.as_str(), named.port.as_str()));
        assert_eq!(found, expected, "{text}");
        if let Err(refused) = &read {
            assert_eq!(
                (refused.code, refused.message.clone()),
                (400, format!("invalid pod request {text:?}"))
            );
        }
    }
}

#[test]
fn pod_backend_uses_the_requested_or_first_container_port() {
    let with = |address: &str, ports: Value| {
        let containers = json!([{"name": "sidecar"}, {"name": "main", "ports": ports}]);
        map(json!({"spec": {"containers": containers}, "status": {"podIP": address}}))
    };
    let ports = json!([{"containerPort": 8080}, {"containerPort": 9090}]);
    for (text, ports, expected) in [
        ("web", ports.clone(), Ok("10.0.0.7:8080")),
        ("web", json!([]), Ok("10.0.0.7:80")),
        ("https:web:", json!([]), Ok("10.0.0.7:443")),
        ("web:9", ports.clone(), Ok("10.0.0.7:9")),
        ("web:http", ports.clone(), Err("invalid pod request \"web:http\": a port is a number")),
        ("web:99999", ports.clone(), Err("invalid pod request \"web:99999\": a port is a number")),
    ] {
        let found = pod_address(&with("10.0.0.7", ports), &ProxyTarget::read(text, "pod").unwrap());
        let found = found.map(|address| address.authority()).map_err(|status| status.message);
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
    }
    let six = pod_address(&with("fd00::7", json!([])), &ProxyTarget::read("web", "pod").unwrap()).unwrap();
    assert_eq!(six.authority(), "[fd00::7]:80");
}

#[test]
fn proxy_rejects_addresses_that_cannot_be_pods() {
    for address in [
        "",
        "name",
        "127.0.0.1",
        "127.8.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "fe80::1",
        "ff02::1",
        "fd00:ec2::254",
    ] {
        let pod = map(json!({"status": {"podIP": address}}));
        let refused = pod_address(&pod, &ProxyTarget::read("web:80", "pod").unwrap()).unwrap_err();
        assert_eq!(refused.code, 400, "{address}");
        assert!(refused.message.starts_with("address not allowed: "), "{address}: {refused}");
    }
}

#[test]
fn service_backend_is_a_ready_endpoint_of_the_requested_port() {
    let service = map(json!({"spec": {"ports": [
        {"name": "http", "port": 80, "targetPort": 8080}, {"name": "admin", "port": 90, "targetPort": 9090},
    ]}}));
    let endpoint = |address: &str, pod: &str, ready: Value| json!({"addresses": [address], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": pod}});
    let slices = [
        map(json!({
            "ports": [{"name": "http", "port": 8080}, {"name": "admin", "port": 9090}],
            "endpoints": [
                endpoint("10.0.0.1", "a", json!(true)),
                endpoint("10.0.0.2", "b", json!(null)),
                endpoint("10.0.0.3", "c", json!(false)),
                endpoint("127.0.0.1", "lo", json!(true)),
                // The address of another pod.
                endpoint("10.9.9.9", "a", json!(true)),
                {"addresses": ["10.0.0.4"], "conditions": {"ready": true}},
            ],
        })),
        map(
            json!({"ports": [{"name": "admin", "port": 9091}], "endpoints": [endpoint("10.0.0.5", "e", json!(true))]}),
        ),
        map(json!({"ports": null, "endpoints": null})),
    ];
    let has = |pod: &str, address: &str| {
        [("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.3"), ("e", "10.0.0.5"), ("lo", "127.0.0.1")]
            .contains(&(pod, address))
    };
    for (text, expected) in [
        ("web:http", Ok(vec!["10.0.0.1:8080", "10.0.0.2:8080"])),
        ("web:80", Ok(vec!["10.0.0.1:8080", "10.0.0.2:8080"])),
        ("http:web:admin", Ok(vec!["10.0.0.1:9090", "10.0.0.2:9090", "10.0.0.5:9091"])),
        // A named port is only found by its name.
        ("web", Ok(vec![])),
        ("web:none", Ok(vec![])),
        ("web:8080", Err("no service port 8080 found for service \"web\"")),
    ] {
        let found = service_addresses(&service, &slices, &ProxyTarget::read(text, "service").unwrap(), has);
        let found =
            found.map(|addresses| addresses.iter().map(BackendAddress::authority).collect::<Vec<_>>());
        let found = found.map_err(|status| status.message);
        let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect());
        assert_eq!(found, expected.map_err(str::to_owned), "{text}");
    }
    let unnamed = map(json!({"spec": {"ports": [{"port": 80}]}}));
    let slice = map(
        json!({"ports": [{"name": "", "port": 8080}], "endpoints": [endpoint("10.0.0.1", "a", json!(true))]}),
    );
    for text in ["web", "web:80", "https:web:"] {
        let named = ProxyTarget::read(text, "service").unwrap();
        let found = service_addresses(&unnamed, std::slice::from_ref(&slice), &named, has).unwrap();
        assert_eq!(found.len(), 1, "{text}");
    }
}

#[test]
fn a_pod_has_several_addresses() {
    let pod =
        map(json!({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}}));
    assert!(has_address(&pod, "fd00::1") && has_address(&pod, "10.0.0.1") && !has_address(&pod, "10.0.0.2"));
    assert!(!has_address(&map(json!({})), ""));
}
