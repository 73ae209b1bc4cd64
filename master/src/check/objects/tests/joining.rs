//! Machines on their way in, and those that a new root would leave outside.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};

use super::*;

#[test]
fn a_machine_that_waits_for_a_person_is_named_within_a_minute_with_the_command() {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "kubelet:n1");
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let signer = "kubernetes.io/kube-apiserver-client-kubelet";
    for (user, request, expected) in [
        ("system:anonymous", STANDARD.encode(pem), format!("system:anonymous asks {signer} for node n1")),
        ("system:node:n2", String::new(), format!("system:node:n2 asks {signer} for node n2")),
    ] {
        let request = json!({"metadata": {"name": "r", "creationTimestamp": "2026-06-01T11:59:00Z"},
            "spec": {"username": user, "signerName": signer, "request": request}, "status": {}});
        let found = requests::findings(&world(&json!({"certificatesigningrequests": [request]})));
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(finding.cause, expected);
        assert!(finding.remedy.starts_with("`kubectl certificate approve r` if "), "{finding:?}");
    }
}

#[test]
fn nodes_that_a_retired_root_would_shut_out_are_named() {
    let signed = |name: &str, by: &str| {
        let annotations = if by.is_empty() { json!({}) } else { json!({"coracle.io/signed-by": by}) };
        json!({"metadata": {"name": name, "annotations": annotations}})
    };
    let told = |nodes: Vec<Value>| -> Vec<String> {
        let found = world(&json!({"nodes": nodes})).unrenewed("new");
        found.iter().map(|finding| format!("{}: {}", finding.what, finding.cause)).collect()
    };
    assert_eq!(told(vec![signed("a", "new")]), Vec::<String>::new());
    let found = told(vec![signed("a", "old"), signed("b", "new"), signed("c", "older"), signed("d", "")]);
    assert!(
        found[0].starts_with("2 nodes without a certificate of the new root: a, c: new signs now"),
        "{found:?}"
    );
    assert!(
        found[1].starts_with("1 node of which nobody knows who signed their certificate: d: "),
        "{found:?}"
    );
    let many = told((0..99).map(|number| signed(&format!("n{number}"), "old")).collect());
    assert!(many[0].starts_with("99 nodes ") && many[0].contains("n19, ...: "), "{many:?}");
}
