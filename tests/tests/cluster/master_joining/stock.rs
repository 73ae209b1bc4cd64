//! The stock join flow: a bootstrap token, a request, manual approval, a certificate; then requests of the node itself.

use serde_json::{Value, json};
use tests::{DEADLINE, Master, wait_until};

use crate::master_joining::machine::{CLIENT, Machine, REQUESTS, SERVING, Shows, admin, make, token};

/// The user that the server sees (SelfSubjectReview).
async fn whoami(master: &Master, machine: &Machine, shows: &Shows<'_>) -> (String, Value) {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, answer) = machine.sends(master, shows, path, Some(&review)).await;
    let user = &answer["status"]["userInfo"];
    (user["username"].as_str().unwrap_or_default().to_owned(), user["groups"].clone())
}

#[tokio::test]
async fn node_with_a_token_joins_after_approval_and_renews_its_certificates() {
    let master = Master::running().await;
    let machine = Machine::new();
    let token = token(&master, "abcdef", "system:bootstrappers:rack").await;
    let bearer = Shows::Token(&token);
    let request = machine.request("system:node:n1", "");
    let (code, made) = machine.request_certificate(&master, &bearer, ("csr-n1", CLIENT), &request).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["username"], "system:bootstrap:abcdef");
    assert_eq!(made["spec"]["extra"]["coracle.io/peer-address"], json!(["127.0.0.1"]));
    let listed = admin(&master, "get csr").await;
    assert!(listed.contains("csr-n1") && listed.contains("Pending"), "{listed}");
    let approved = admin(&master, "certificate approve csr-n1").await;
    assert!(approved.contains("csr-n1 approved"), "{approved}");
    let certificate = machine.is_signed(&master, &bearer, "csr-n1").await;
    let node = Shows::Certificate(&certificate);
    let expected = ("system:node:n1".to_owned(), json!(["system:nodes", "system:authenticated"]));
    assert_eq!(whoami(&master, &machine, &node).await, expected);
    let listed = admin(&master, "get csr").await;
    assert!(listed.contains("Approved,Issued"), "{listed}");

    // A node may request its own certificates by an RBAC role of its own or a binding.
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "nodes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    });
    make(&master, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await;
    let (code, _) = machine.request_certificate(&master, &node, ("renewed", CLIENT), &request).await;
    assert_eq!(code, 201);
    machine.is_signed(&master, &node, "renewed").await;
    assert_eq!(
        machine.has_condition(&master, "renewed", "Approved").await,
        "the node renews its own certificate"
    );

    let serving = machine.request("system:node:n1", "DNS:n1,IP:127.0.0.1");
    machine.request_certificate(&master, &node, ("serving", SERVING), &serving).await;
    machine.is_signed(&master, &node, "serving").await;
    machine.file("root.pem", &master.admin().unwrap().authority);
    let verify = [
        "verify",
        "-CAfile",
        "root.pem",
        "-untrusted",
        "signed.pem",
        "-purpose",
        "sslserver",
        "-verify_hostname",
        "n1",
        "signed.pem",
    ];
    assert!(machine.openssl(&verify).contains("OK"));

    // A request with an unknown address stays pending until the Node's status has this address.
    let elsewhere = machine.request("system:node:n1", "IP:10.9.9.9");
    machine.request_certificate(&master, &node, ("elsewhere", SERVING), &elsewhere).await;
    let waits = async || {
        let log = master.log();
        if log.contains("10.9.9.9 is neither a name or an address of the node n1") {
            Ok(())
        } else {
            Err(log)
        }
    };
    wait_until(DEADLINE, waits).await.unwrap();
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    make(&master, "/api/v1/nodes", &object).await;
    let status = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]}});
    let client = master.client();
    let url = format!("https://127.0.0.1:{}/api/v1/nodes/n1/status", master.port);
    let patch =
        client.patch(&url).header("content-type", "application/merge-patch+json").body(status.to_string());
    assert_eq!(patch.send().await.unwrap().status().as_u16(), 200);
    machine.is_signed(&master, &node, "elsewhere").await;
}

#[tokio::test]
async fn denied_and_unsignable_csrs_get_a_condition() {
    let master = Master::running().await;
    let machine = Machine::new();
    let request = machine.request("kubelet:n2", "");
    let (code, made) = machine.request_certificate(&master, &Shows::Nothing, ("no", CLIENT), &request).await;
    assert_eq!((code, &made["spec"]["username"]), (201, &"system:anonymous".into()), "{made}");
    let denied = admin(&master, "certificate deny no").await;
    assert!(denied.contains("no denied"), "{denied}");
    machine.has_condition(&master, "no", "Denied").await;
    // An anonymous client can read the result of its own request, by name.
    let (code, seen) = machine.sends(&master, &Shows::Nothing, &format!("{REQUESTS}/no"), None).await;
    assert_eq!((code, &seen["status"]["conditions"][0]["type"]), (200, &"Denied".into()));
    let (code, _) = machine.sends(&master, &Shows::Nothing, REQUESTS, None).await;
    assert_eq!(code, 403);

    // Nodes may not request alternative names in client certificates. The approver of such a request gets a warning.
    let token = token(&master, "abcdef", "").await;
    let wrong = machine.request("kubelet:n2", "DNS:kubernetes.default");
    machine.request_certificate(&master, &Shows::Token(&token), ("wrong", CLIENT), &wrong).await;
    admin(&master, "certificate approve wrong").await;
    let why = machine.has_condition(&master, "wrong", "Failed").await;
    assert_eq!(why, "DNS subjectAltNames are not allowed");
    for (name, signer, user, names) in [
        ("a", "kubernetes.io/kube-apiserver-client", "kubelet:n2", ""),
        ("b", SERVING, "kubelet:n2", "DNS:n2"),
        ("c", CLIENT, "jane", ""),
        ("d", "example.com/own", "kubelet:n2", ""),
    ] {
        let request = machine.request(user, names);
        let (code, refused) =
            machine.request_certificate(&master, &Shows::Nothing, (name, signer), &request).await;
        assert_eq!(code, 403, "{refused}");
    }
}
