//! Service IPs, tested through the API.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use apiserver::admission::ServiceIpAllocator;
use apiserver::auth::{Auth, Issuer, Signer};
use apiserver::registry::Registry;
use apiserver::storage::{Limits, Memory};
use apiserver::{Api, Catalog, Identity, VERSION, kinds};
use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, header};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::admission::{self, AdmissionConfig};
use crate::options::{AdmissionPlugins, SERVICES as SERVICES_OF_MASTERS, ServiceRange};

const ALL: &str = "/api/v1/namespaces/shop/services";

/// A server that allocates service IPs from these CIDRs.
async fn server(ranges: &[(&str, u8)]) -> Router {
    let registry =
        Registry::open(Arc::new(Memory::new(Limits::default())), Catalog::new(kinds::all())).await.unwrap();
    let range =
        |(network, bits): &(&str, u8)| ServiceRange { network: network.parse().unwrap(), bits: *bits };
    let addresses = ServiceIpAllocator::new(registry.clone(), ranges.iter().map(range).collect());
    Api::writable(registry, vec![Arc::new(addresses)], VERSION).router()
}

/// A server with the admission plugins of a master. The namespaces of these tests do not exist.
async fn master() -> Router {
    let registry =
        Registry::open(Arc::new(Memory::new(Limits::default())), Catalog::new(kinds::all())).await.unwrap();
    let signer = Signer::new(&rcgen::KeyPair::generate().unwrap().serialize_der()).unwrap();
    let issuer = Issuer { name: "https://issuer".to_owned(), server: "https://server".to_owned() };
    let auth = Auth::new(registry.cache().clone(), signer, issuer);
    let plugins =
        AdmissionPlugins { disabled: vec!["NamespaceLifecycle".to_owned()], ..AdmissionPlugins::default() };
    let added =
        AdmissionConfig { plugins, service_ranges: vec![SERVICES_OF_MASTERS], ..AdmissionConfig::default() };
    Api::writable(registry.clone(), admission::plugins(&registry, &auth, added), VERSION).router()
}

/// Sends a request. Returns the status code and the body.
async fn send_request(server: &Router, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
    let admin = Identity::authenticated("admin", ["system:masters".to_owned()]);
    let request = request.extension(admin).body(Body::from(body.to_string())).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    (code, serde_json::from_slice(&to_bytes(response.into_body(), usize::MAX).await.unwrap()).unwrap())
}

/// Sends a request that must succeed.
async fn done(server: &Router, method: &str, path: &str, body: &Value) -> Value {
    let (code, answer) = send_request(server, method, path, body).await;
    assert!(code < 300, "{method} {path}: {answer}");
    answer
}

/// Creates a service. Returns the object, or the error message.
async fn create(server: &Router, name: &str, spec: Value) -> Result<Value, String> {
    let mut service =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    if service["spec"]["type"] != "ExternalName" {
        service["spec"]["ports"] = json!([{"port": 80}]);
        if let Some(port) = spec.get("nodePort") {
            service["spec"]["ports"][0]["nodePort"] = port.clone();
        }
    }
    service["spec"].as_object_mut().unwrap().remove("nodePort");
    match send_request(server, "POST", ALL, &service).await {
        (201, made) => Ok(made),
        (code, status) => Err(format!("{code} {}", status["message"].as_str().unwrap_or_default())),
    }
}

#[tokio::test]
async fn service_gets_the_ips_and_ports_of_its_type_and_keeps_them() {
    let server = server(&[("10.96.0.0", 12)]).await;
    for (spec, has_address, has_port) in [
        (json!({}), true, false),
        (json!({"type": "NodePort"}), true, true),
        (json!({"type": "LoadBalancer"}), true, true),
        (json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}), true, false),
        (json!({"clusterIP": "None"}), false, false),
        (json!({"type": "ExternalName", "externalName": "example.com"}), false, false),
    ] {
        let made = create(&server, "web", spec.clone()).await.unwrap();
        let ip = made["spec"]["clusterIP"].as_str().unwrap_or_default();
        assert_eq!(ip.starts_with("10."), has_address, "{made}");
        assert_eq!(made["spec"]["ports"][0]["nodePort"].is_u64(), has_port, "{made}");
        let is_name = spec["type"] == "ExternalName";
        assert_eq!(made["spec"]["ipFamilies"] == json!(["IPv4"]), !is_name, "{made}");
        assert_eq!(made["spec"]["ipFamilyPolicy"] == "SingleStack", !is_name, "{made}");
        // An update that omits the allocated fields keeps them.
        let mut silent = made.clone();
        for field in
            ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"].iter().filter(|_| has_address)
        {
            silent["spec"].as_object_mut().unwrap().remove(*field);
        }
        silent["metadata"]["labels"] = json!({"a": "b"});
        let path = format!("{ALL}/web");
        assert_eq!(done(&server, "PUT", &path, &silent).await["spec"], made["spec"]);
        done(&server, "DELETE", &path, &json!({})).await;
    }
}

#[tokio::test]
async fn cluster_ips_are_unique_and_released_ips_are_reused() {
    let server = server(&[("10.96.0.0", 29)]).await;
    let refused = async |name: &str, spec: Value, words: &str| {
        let error = create(&server, name, spec).await.unwrap_err();
        assert!(error.contains("422") && error.contains(words), "{error}");
    };
    create(&server, "a", json!({"type": "NodePort", "clusterIP": "10.96.0.3", "nodePort": 30100}))
        .await
        .unwrap();
    refused("b", json!({"clusterIP": "10.96.0.3"}), "spec.clusterIPs[0]: Invalid value: \"10.96.0.3\": failed to allocate IP 10.96.0.3: provided IP is already allocated").await;
    refused("b", json!({"clusterIP": "10.97.0.3"}), "The range of valid IPs is 10.96.0.0/29").await;
    refused(
        "b",
        json!({"type": "NodePort", "nodePort": 30100}),
        "spec.ports[0].nodePort: Invalid value: 30100: provided port is already allocated",
    )
    .await;
    refused("b", json!({"type": "NodePort", "nodePort": 80}), "The range of valid ports is 30000-32767")
        .await;
    refused("b", json!({"ipFamilyPolicy": "RequireDualStack"}), "not configured for dual-stack").await;
    let mut others = std::collections::BTreeSet::new();
    for name in ["c", "d", "e", "f", "g"] {
        let made = create(&server, name, json!({})).await.unwrap();
        assert!(others.insert(made["spec"]["clusterIP"].to_string()));
    }
    refused("h", json!({}), "range is full").await;
    done(&server, "DELETE", &format!("{ALL}/a"), &json!({})).await;
    let made = create(&server, "h", json!({"type": "NodePort", "nodePort": 30100})).await.unwrap();
    assert_eq!(made["spec"]["clusterIP"], "10.96.0.3", "the only one left");
    let patch = json!({"spec": {"type": "ExternalName", "externalName": "example.com", "clusterIP": null, "clusterIPs": null, "ports": null}});
    done(&server, "PATCH", &format!("{ALL}/h"), &patch).await;
    create(&server, "i", json!({"type": "NodePort", "nodePort": 30100})).await.unwrap();
}

#[tokio::test]
async fn service_mutated_by_a_policy_gets_ips_and_node_ports() {
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolic";
    let server = master().await;
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]});
    let patch = json!({"expression": "Object{spec: Object.spec{type: has(object.spec.clusterIP) ? 'ExternalName' : 'NodePort'}}"});
    let mutation = json!({"patchType": "ApplyConfiguration", "applyConfiguration": patch});
    let policy = json!({"metadata": {"name": "ports"}, "spec": {
        "reinvocationPolicy": "Never", "matchConstraints": {"resourceRules": [rule]}, "mutations": [mutation]}});
    done(&server, "POST", &format!("{POLICIES}ies"), &policy).await;
    let binding = json!({"metadata": {"name": "ports"}, "spec": {"policyName": "ports"}});
    done(&server, "POST", &format!("{POLICIES}ybindings"), &binding).await;
    let made = create(&server, "web", json!({})).await.unwrap();
    assert_eq!(made["spec"]["type"], "NodePort");
    assert!(made["spec"]["ports"][0]["nodePort"].is_u64() && made["spec"]["clusterIP"].is_string(), "{made}");
}

#[tokio::test]
async fn dual_stack_services_get_an_ip_of_each_family() {
    let server = server(&[("10.96.0.0", 12), ("fd00::", 112)]).await;
    for (policy, families) in [
        ("SingleStack", json!(["IPv4"])),
        ("PreferDualStack", json!(["IPv4", "IPv6"])),
        ("RequireDualStack", json!(["IPv4", "IPv6"])),
    ] {
        let made = create(&server, &policy.to_lowercase(), json!({"ipFamilyPolicy": policy})).await.unwrap();
        assert_eq!(made["spec"]["ipFamilies"], families);
        assert_eq!(made["spec"]["clusterIPs"].as_array().unwrap().len(), families.as_array().unwrap().len());
    }
    let path = format!("{ALL}/requiredualstack");
    let made = done(&server, "PATCH", &path, &json!({"spec": {"ipFamilyPolicy": "SingleStack"}})).await;
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4"]));
    assert_eq!(made["spec"]["clusterIPs"], json!([made["spec"]["clusterIP"]]));
    let both = done(&server, "PATCH", &path, &json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}})).await;
    assert_eq!(both["spec"]["clusterIPs"].as_array().unwrap().len(), 2);
    assert_eq!(both["spec"]["clusterIP"], made["spec"]["clusterIP"]);
}
