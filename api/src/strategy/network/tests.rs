//! Tests of the strategies of networking kinds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use super::addresses::{Allocator, complete};
use crate::strategy::tests::{Case, change, refused, stored};
use crate::strategy::{Json, Part};

type Change = fn(&mut Value);

fn service(kind: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "default"},
        "spec": {"type": kind, "selector": {"app": "a"}, "ports": [{"port": 80}]},
    })
}

#[test]
fn minimal_service_gets_all_defaults() {
    let case = Case::new(service(""));
    let expected = json!({
        "type": "ClusterIP", "selector": {"app": "a"}, "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    });
    assert_eq!(case.at("/spec"), expected);
    assert_eq!(case.at("/status"), json!({"loadBalancer": {}}));
    let balanced = Case::new(service("LoadBalancer"));
    assert_eq!(balanced.at("/spec/externalTrafficPolicy"), "Cluster");
    assert_eq!(balanced.at("/spec/allocateLoadBalancerNodePorts"), true);
    let mut sticky = service("");
    sticky["spec"]["sessionAffinity"] = "ClientIP".into();
    assert_eq!(Case::new(sticky).at("/spec/sessionAffinityConfig/clientIP/timeoutSeconds"), 10800);
}

#[test]
fn invalid_services_are_rejected() {
    let cases: [(Change, &str, &str); 13] = [
        (|it| it["spec"]["type"] = "x".into(), "spec.type", "Unsupported value"),
        (|it| it["spec"]["ports"] = json!([]), "spec.ports", "Required value"),
        (
            |it| it["spec"]["ports"] = json!([{"port": 1}, {"port": 2}]),
            "spec.ports[0].name",
            "Required value",
        ),
        (
            |it| it["spec"]["ports"] = json!([{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]),
            "spec.ports[1].name",
            "Duplicate value",
        ),
        (
            |it| it["spec"]["ports"] = json!([{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]),
            "spec.ports[1]",
            "Duplicate value",
        ),
        (|it| it["spec"]["ports"][0]["port"] = 70000.into(), "spec.ports[0].port", "between 1 and 65535"),
        (
            |it| it["spec"]["ports"][0]["targetPort"] = "no port".into(),
            "spec.ports[0].targetPort",
            "Invalid value",
        ),
        (
            |it| it["spec"]["ports"][0]["nodePort"] = 30000.into(),
            "spec.ports[0].nodePort",
            "may not be used when `type` is 'ClusterIP'",
        ),
        (|it| it["spec"]["type"] = "ExternalName".into(), "spec.externalName", "Required value"),
        (|it| it["spec"]["clusterIP"] = "x".into(), "spec.clusterIPs[0]", "valid IP address"),
        (
            |it| it["spec"]["externalTrafficPolicy"] = "Local".into(),
            "spec.externalTrafficPolicy",
            "externally-accessible",
        ),
        (
            |it| {
                it["spec"]["type"] = "NodePort".into();
                it["spec"]["clusterIP"] = "None".into();
            },
            "spec.clusterIP",
            "may not be set to 'None'",
        ),
        (
            |it| it["spec"]["sessionAffinity"] = "x".into(),
            "spec.sessionAffinity",
            "supported values: \"ClientIP\", \"None\"",
        ),
    ];
    for (change, field, words) in cases {
        refused(&service("ClusterIP"), change, field, words);
    }
    let mut headless = service("ClusterIP");
    headless["spec"]["clusterIP"] = "None".into();
    headless["spec"]["ports"] = json!(null);
    stored(&headless);
}

#[test]
fn source_ranges_can_have_white_space() {
    let mut balanced = service("LoadBalancer");
    balanced["spec"]["loadBalancerSourceRanges"] = json!([" 203.0.113.0/24 ", "2001:db8::/32"]);
    stored(&balanced);
    let ranges = "spec.loadBalancerSourceRanges[0]";
    for invalid in ["203.0.113.0 /24", "203.0.113.0"] {
        let change = |it: &mut Value| it["spec"]["loadBalancerSourceRanges"] = json!([invalid]);
        refused(&balanced, change, ranges, "must be a valid CIDR value");
    }
}

#[test]
fn allocated_values_are_kept() {
    let mut placed = service("NodePort");
    placed["spec"]["clusterIP"] = "10.0.0.5".into();
    placed["spec"]["ports"][0]["nodePort"] = 30080.into();
    let before = stored(&placed);
    let silent = Case::update(&before, &Part::Main, |it| *it = service("NodePort"));
    assert_eq!(silent.messages(&Part::Main), [] as [&str; 0]);
    assert_eq!(silent.at("/spec/clusterIPs"), json!(["10.0.0.5"]));
    assert_eq!(silent.at("/spec/ports/0/nodePort"), 30080);
    change(
        &before,
        &Part::Main,
        |it| {
            it["spec"]["clusterIP"] = "10.0.0.6".into();
            it["spec"]["clusterIPs"] = json!(["10.0.0.6"]);
        },
        "spec.clusterIPs[0]",
        "may not change once set",
    );
    let back = Case::update(&before, &Part::Main, |it| it["spec"]["type"] = "ClusterIP".into());
    assert_eq!(back.messages(&Part::Main), [] as [&str; 0]);
    assert_eq!(back.at("/spec/ports/0"), json!({"port": 80, "protocol": "TCP", "targetPort": 80}));
    let name = Case::update(&before, &Part::Main, |it| {
        it["spec"]["type"] = "ExternalName".into();
        it["spec"]["externalName"] = "a.example".into();
    });
    assert_eq!(name.messages(&Part::Main), [] as [&str; 0]);
    assert_eq!((name.at("/spec/clusterIP"), name.at("/spec/ports/0/nodePort")), (Value::Null, Value::Null));
    let balanced = stored(&service("LoadBalancer"));
    let plain = Case::update(&balanced, &Part::Main, |it| it["spec"]["type"] = "NodePort".into());
    assert_eq!(plain.messages(&Part::Main), [] as [&str; 0]);
}

/// Allocates addresses and ports in order.
#[derive(Default)]
struct Counter(u16);

impl Allocator for Counter {
    fn address(&mut self, family: &str, wanted: Option<&str>) -> Result<String, String> {
        self.0 += 1;
        let next = if family == "IPv6" { format!("fd00::{}", self.0) } else { format!("10.0.0.{}", self.0) };
        Ok(wanted.map_or(next, str::to_owned))
    }

    fn port(&mut self, _protocol: &str, wanted: Option<u16>) -> Result<u16, String> {
        self.0 += 1;
        if wanted == Some(1) {
            Err("provided port is not in the valid range".to_owned())
        } else {
            Ok(wanted.unwrap_or(30000 + self.0))
        }
    }
}

fn completed(service: Value, before: Option<&Json>, families: &[&str]) -> Result<Value, (String, String)> {
    let mut object = Case::new(service).object;
    complete(&mut object, before, families, &mut Counter::default())?;
    Ok(Value::Object(object))
}

#[test]
fn service_requests_addresses_only_if_its_type_needs_them() {
    let one = completed(service("NodePort"), None, &["IPv4"]).unwrap();
    assert_eq!(one["spec"]["clusterIP"], "10.0.0.1");
    assert_eq!(one["spec"]["clusterIPs"], json!(["10.0.0.1"]));
    assert_eq!(
        (&one["spec"]["ipFamilies"], &one["spec"]["ipFamilyPolicy"]),
        (&json!(["IPv4"]), &"SingleStack".into())
    );
    assert_eq!(one["spec"]["ports"][0]["nodePort"], 30002);
    let again = completed(one.clone(), one.as_object(), &["IPv4"]).unwrap();
    assert_eq!(again, one, "nothing is given out twice");
    let with = |field: &str, value: Value| {
        let mut service = service("ClusterIP");
        service["spec"][field] = value;
        service
    };
    let both = completed(with("ipFamilyPolicy", "PreferDualStack".into()), None, &["IPv4", "IPv6"]).unwrap();
    assert_eq!(both["spec"]["clusterIPs"], json!(["10.0.0.1", "fd00::2"]));
    let headless = completed(with("clusterIP", "None".into()), None, &["IPv4"]).unwrap();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    let (field, _) =
        completed(with("ipFamilyPolicy", "RequireDualStack".into()), None, &["IPv4"]).unwrap_err();
    assert_eq!(field, "spec.ipFamilyPolicy");
    let mut low = service("NodePort");
    low["spec"]["ports"][0]["nodePort"] = 1.into();
    assert_eq!(completed(low, None, &["IPv4"]).unwrap_err().0, "spec.ports[0].nodePort");
}

#[test]
fn slices_and_endpoints() {
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "a"}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}],
    });
    assert_eq!(Case::new(slice.clone()).at("/ports/0"), json!({"port": 80, "name": "", "protocol": "TCP"}));
    let cases: [(Change, &str, &str); 5] = [
        (
            |it| it["addressType"] = "x".into(),
            "addressType",
            "supported values: \"FQDN\", \"IPv4\", \"IPv6\"",
        ),
        (|it| it["endpoints"][0]["addresses"] = json!(["fd00::1"]), "endpoints[0].addresses[0]", "IPv4"),
        (
            |it| it["endpoints"][0]["addresses"] = json!(["127.0.0.1"]),
            "endpoints[0].addresses[0]",
            "loopback",
        ),
        (
            |it| it["endpoints"] = vec![json!({"addresses": ["10.0.0.1"]}); 1001].into(),
            "endpoints",
            "Too many: 1001",
        ),
        (|it| it["ports"] = json!([{"port": 1}, {"port": 2}]), "ports[1].name", "Duplicate value"),
    ];
    for (change, field, words) in cases {
        refused(&slice, change, field, words);
    }
    change(
        &stored(&slice),
        &Part::Main,
        |it| it["addressType"] = "FQDN".into(),
        "addressType",
        "field is immutable",
    );
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a"}, "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]});
    stored(&endpoints);
    refused(
        &endpoints,
        |it| it["subsets"][0]["addresses"] = json!([]),
        "subsets[0]",
        "must specify `addresses`",
    );
}

#[test]
fn ingresses() {
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "a"},
        "spec": {"rules": [{"host": "*.example.com", "http": {"paths": [
            {"path": "/x", "pathType": "Prefix", "backend": {"service": {"name": "a", "port": {"number": 80}}}}]}}]},
    });
    stored(&ingress);
    let cases: [(Change, &str, &str); 6] = [
        (|it| it["spec"] = json!({}), "spec", "either `defaultBackend` or `rules`"),
        (|it| it["spec"]["rules"][0]["host"] = "10.0.0.1".into(), "spec.rules[0].host", "not an IP address"),
        (
            |it| it["spec"]["rules"][0]["http"]["paths"][0]["path"] = "x".into(),
            "spec.rules[0].http.paths[0].path",
            "absolute path",
        ),
        (
            |it| drop(it["spec"]["rules"][0]["http"]["paths"][0].as_object_mut().unwrap().remove("pathType")),
            "spec.rules[0].http.paths[0].pathType",
            "Required value",
        ),
        (
            |it| it["spec"]["rules"][0]["http"]["paths"][0]["backend"] = json!({}),
            "spec.rules[0].http.paths[0].backend",
            "Required value",
        ),
        (
            |it| it["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["port"] = json!({}),
            "spec.rules[0].http.paths[0].backend.service.port",
            "Required value",
        ),
    ];
    for (change, field, words) in cases {
        refused(&ingress, change, field, words);
    }
    let class = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "a"}, "spec": {"controller": "a.io/b"}});
    change(
        &stored(&class),
        &Part::Main,
        |it| it["spec"]["controller"] = "a.io/c".into(),
        "spec.controller",
        "field is immutable",
    );
    refused(&class, |it| it["spec"]["controller"] = "x".into(), "spec.controller", "domain-prefixed path");
}

#[test]
fn policies() {
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"},
        "spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}], "ports": [{"port": 80, "endPort": 90}]}]},
    });
    let case = Case::new(policy.clone());
    assert_eq!(case.messages(&Part::Main), [] as [&str; 0]);
    assert_eq!(case.at("/spec/policyTypes"), json!(["Ingress", "Egress"]));
    assert_eq!(case.at("/spec/podSelector"), json!({}));
    assert_eq!(case.at("/spec/egress/0/ports/0/protocol"), "TCP");
    let cases: [(Change, &str, &str); 4] = [
        (|it| it["spec"]["egress"][0]["to"][0] = json!({}), "spec.egress[0].to[0]", "must specify a peer"),
        (
            |it| it["spec"]["egress"][0]["to"][0]["podSelector"] = json!({}),
            "spec.egress[0].to[0]",
            "may not specify both",
        ),
        (
            |it| it["spec"]["egress"][0]["to"][0]["ipBlock"]["except"][0] = "11.0.0.0/16".into(),
            "spec.egress[0].to[0].ipBlock.except[0]",
            "strict subset",
        ),
        (
            |it| it["spec"]["egress"][0]["ports"][0]["endPort"] = 70.into(),
            "spec.egress[0].ports[0].endPort",
            "greater than or equal to `port`",
        ),
    ];
    for (change, field, words) in cases {
        refused(&policy, change, field, words);
    }
}
