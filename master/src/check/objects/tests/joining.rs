//! Tests of CSRs, and of nodes that a new root CA would lock out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::*;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// A CSR of this age for a user and a group, in base64; empty for none.
fn request(who: &str, signer: &str, (user, group): (&str, &str), created: &str) -> Value {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    if !group.is_empty() {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let pem = if user.is_empty() { String::new() } else { STANDARD.encode(pem) };
    json!({"metadata": {"name": "r", "creationTimestamp": created}, "spec": {"username": who, "signerName": signer, "request": pem}, "status": {}})
}

fn of_requests(request: &Value) -> Vec<Finding> {
    requests::findings(&world(&json!({"certificatesigningrequests": [request]})))
}

#[test]
fn pending_csr_is_reported_within_a_minute_with_the_command() {
    for signer in [CLIENT, "kubernetes.io/kubelet-serving"] {
        let found =
            of_requests(&request("joe", signer, ("kubelet:n1", "system:nodes"), "2026-06-01T11:59:00Z"));
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(finding.cause, format!("joe asks {signer} for node n1"));
        let wanted = "`kubectl certificate approve r` if node n1 sent the request, ";
        assert!(finding.remedy.starts_with(wanted), "{finding:?}");
    }
    let people = request("joe", "kubernetes.io/kube-apiserver-client", ("joe", ""), "2026-06-01T11:59:00Z");
    assert_eq!(of_requests(&people), [], "requests of users are no finding");
}

#[test]
fn csr_for_the_name_of_an_existing_node_is_reported_with_that_node() {
    let node = json!({
        "metadata": {"name": "n1"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
        },
    });
    let mut csr = request("joe", CLIENT, ("kubelet:n1", "system:nodes"), "2026-06-01T11:59:00Z");
    let find = |csr: &Value| {
        requests::findings(&world(&json!({"certificatesigningrequests": [csr], "nodes": [node]})))
    };
    let waiting = find(&csr);
    assert!(
        waiting[0].cause.ends_with("a node with that name exists and is Ready (address 10.0.0.7)"),
        "{waiting:?}"
    );
    csr["status"]["conditions"] = json!([
        {"type": "Approved", "status": "True"},
        {"type": "NodeNameInUse", "status": "True", "reason": "NodeIsReady", "message": "node n1 is Ready on another machine"},
    ]);
    let held = find(&csr);
    assert_eq!(held.len(), 1, "{held:?}");
    assert!(
        held[0].what.contains("node name is in use") && held[0].cause.contains("node n1 is Ready"),
        "{held:?}"
    );
}

#[test]
fn a_node_request_with_a_wrong_subject_is_reported_with_name_and_groups() {
    let user = "kubernetes.io/kube-apiserver-client";
    for (signer, csr, expected) in [
        (user, ("joe", "system:masters"), "to be \"joe\" (CN) of the groups (O) [\"system:masters\"]"),
        (user, ("kubelet:n3", ""), "to be \"kubelet:n3\" (CN) of no groups (O)"),
        (CLIENT, ("joe", "system:nodes"), "to be \"joe\" (CN) of the groups (O) [\"system:nodes\"]"),
        (CLIENT, ("", ""), "with a request that cannot be read"),
    ] {
        let found = of_requests(&request("system:node:n2", signer, csr, LONG_AGO));
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(finding.cause, format!("system:node:n2 asks {signer} {expected}"));
        assert!(!finding.remedy.contains("if node"), "{finding:?}");
    }
}

#[test]
fn nodes_that_still_use_a_retiring_root_ca_are_reported() {
    let signed = |name: &str, by: &str| {
        let annotations = if by.is_empty() { json!({}) } else { json!({"coracle.io/signed-by": by}) };
        json!({"metadata": {"name": name, "annotations": annotations}})
    };
    let finding_lines = |nodes: Vec<Value>| -> Vec<String> {
        let found = world(&json!({"nodes": nodes})).unrenewed(&["new".to_owned(), "new before".to_owned()]);
        found.iter().map(|finding| format!("{}: {}", finding.what, finding.cause)).collect()
    };
    assert_eq!(finding_lines(vec![signed("a", "new"), signed("b", "new before")]), Vec::<String>::new());
    let found =
        finding_lines(vec![signed("a", "old"), signed("b", "new"), signed("c", "older"), signed("d", "")]);
    assert!(
        found[0].starts_with("2 nodes without a certificate of the new root: a, c: new signs now"),
        "{found:?}"
    );
    assert!(found[1].starts_with("1 node whose certificate has an unknown signer: d: "), "{found:?}");
    let many = finding_lines((0..99).map(|number| signed(&format!("n{number}"), "old")).collect());
    assert!(many[0].starts_with("99 nodes ") && many[0].contains("n19, ...: "), "{many:?}");
}
