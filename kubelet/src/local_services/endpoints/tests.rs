//! Tests of endpoints, by the rules of the API reference for Services and EndpointSlices.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use super::*;

fn service(spec: Value) -> Service {
    let metadata = json!({"name": "web", "namespace": "shop", "labels": {"tier": "front"}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080}]}]},
        "status": {
            "phase": "Running",
            "podIPs": [{"ip": "10.244.0.7"}, {"ip": "fd00::7"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

fn selector(more: &Value) -> Value {
    let mut spec = json!({"selector": {"app": "web"}, "ipFamilies": ["IPv4"], "clusterIP": "10.96.0.9",
        "ports": [{"name": "web", "port": 80, "targetPort": "http"}]});
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    spec
}

/// The addresses, ports, and the conditions ready, serving and terminating of all endpoints.
fn shown(service: &Service, pods: &[(&Pod, bool)]) -> Vec<String> {
    let candidates: Vec<Candidate<'_>> =
        pods.iter().map(|(pod, is_desired)| Candidate { pod, is_desired: *is_desired }).collect();
    let mut lines = Vec::new();
    for slice in slices_of(service, &candidates, "node1") {
        let ports = slice.ports.unwrap_or_default();
        let ports: Vec<String> = ports
            .iter()
            .map(|port| format!("{}/{}", port.name.as_deref().unwrap_or("-"), port.port.unwrap_or_default()))
            .collect();
        let name = slice.metadata.name.unwrap();
        lines.push(format!("{name} {} {}", slice.address_type, ports.join(",")).trim_end().to_owned());
        for endpoint in slice.endpoints.unwrap_or_default() {
            let EndpointConditions { ready, serving, terminating } = endpoint.conditions.unwrap();
            let mark = |set: Option<bool>, letter| if set == Some(true) { letter } else { '-' };
            let marks: String =
                [mark(ready, 'r'), mark(serving, 's'), mark(terminating, 't')].iter().collect();
            let host = endpoint.hostname.unwrap_or_default();
            lines.push(format!("  {} {marks} {host}", endpoint.addresses.join(",")).trim_end().to_owned());
        }
    }
    lines
}

#[test]
fn endpoints_follow_the_readiness_and_the_end_of_pods() {
    let web = service(selector(&json!({})));
    let ready = pod("a", |_| {});
    let unready = pod("b", |pod| pod["status"]["conditions"][0]["status"] = "False".into());
    let one = |marks: &str| vec!["web-ipv4-0 IPv4 web/8080".to_owned(), format!("  10.244.0.7 {marks}")];
    assert_eq!(shown(&web, &[(&ready, true)]), one("rs-"));
    assert_eq!(shown(&web, &[(&unready, true)]), one("---"));
    assert_eq!(shown(&web, &[(&ready, false)]), one("-st"), "the manifest of the pod was removed");
    let deleted = pod("c", |pod| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into());
    assert_eq!(shown(&web, &[(&deleted, true)]), one("-st"));
    let publishing = service(selector(&json!({"publishNotReadyAddresses": true})));
    assert_eq!(shown(&publishing, &[(&unready, true)]), one("r--"));
    let none = vec!["web-ipv4-0 IPv4".to_owned()];
    for (why, pod) in [
        ("it has ended", pod("d", |pod| pod["status"]["phase"] = "Succeeded".into())),
        ("it has no address", pod("e", |pod| pod["status"]["podIPs"] = json!([]))),
        ("it has a loopback address", pod("f", |pod| pod["status"]["podIPs"] = json!([{"ip": "127.0.0.1"}]))),
        ("another namespace", pod("g", |pod| pod["metadata"]["namespace"] = "default".into())),
        ("other labels", pod("h", |pod| pod["metadata"]["labels"] = json!({"app": "db"}))),
    ] {
        assert_eq!(shown(&web, &[(&pod, true)]), none, "{why}");
    }
}

#[test]
fn slices_have_one_family_and_one_set_of_ports() {
    let both = service(selector(&json!({"ipFamilies": ["IPv6", "IPv4"]})));
    let a = pod("a", |_| {});
    let other = pod("b", |pod| pod["spec"]["containers"][0]["ports"][0]["containerPort"] = 9090.into());
    let expected = [
        "web-ipv6-0 IPv6 web/8080",
        "  fd00::7 rs-",
        "web-ipv6-1 IPv6 web/9090",
        "  fd00::7 rs-",
        "web-ipv4-0 IPv4 web/8080",
        "  10.244.0.7 rs-",
        "web-ipv4-1 IPv4 web/9090",
        "  10.244.0.7 rs-",
    ];
    assert_eq!(shown(&both, &[(&a, true), (&other, true)]), expected);
    let number =
        service(selector(&json!({"ports": [{"port": 80}, {"name": "x", "port": 81, "targetPort": 7}]})));
    assert_eq!(shown(&number, &[(&a, true)]), ["web-ipv4-0 IPv4 /80,x/7", "  10.244.0.7 rs-"]);
    let sidecar = |policy: Value| {
        pod("c", |pod| {
            pod["spec"]["containers"] = json!([{"name": "c"}]);
            let ports = json!([{"name": "http", "containerPort": 8080}]);
            pod["spec"]["initContainers"] = json!([{"name": "s", "ports": ports, "restartPolicy": policy}]);
        })
    };
    let web = service(selector(&json!({})));
    assert_eq!(shown(&web, &[(&sidecar("Always".into()), true)])[0], "web-ipv4-0 IPv4 web/8080");
    assert_eq!(shown(&web, &[(&sidecar(Value::Null), true)])[0], "web-ipv4-0 IPv4", "it does not serve");
}

#[test]
fn host_names_count_in_the_domain_of_their_service() {
    let headless = service(selector(&json!({"clusterIP": "None"})));
    let named = |subdomain: &str| {
        pod("a", |pod| {
            pod["spec"]["hostname"] = "db-0".into();
            pod["spec"]["subdomain"] = subdomain.into();
        })
    };
    assert_eq!(shown(&headless, &[(&named("web"), true)])[1], "  10.244.0.7 rs- db-0");
    assert_eq!(shown(&headless, &[(&named("other"), true)])[1], "  10.244.0.7 rs-");
    let slices = slices_of(&headless, &[], "node1");
    let labels = slices[0].metadata.labels.clone().unwrap();
    let expected = [
        ("endpointslice.kubernetes.io/managed-by", "kubelet"),
        ("kubernetes.io/service-name", "web"),
        ("service.kubernetes.io/headless", ""),
        ("tier", "front"),
    ];
    assert_eq!(labels.iter().map(|(name, value)| (&**name, &**value)).collect::<Vec<_>>(), expected);
}

#[test]
fn services_without_selector_or_address_have_no_slices() {
    let pods = pod("a", |_| {});
    for spec in [json!({"ipFamilies": ["IPv4"]}), json!({"type": "ExternalName", "selector": {"app": "web"}})]
    {
        assert_eq!(shown(&service(spec), &[(&pods, true)]), Vec::<String>::new());
    }
}
