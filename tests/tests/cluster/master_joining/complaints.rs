//! Known complaints of users about node joining in other clusters, and the behaviour here. The table with the original
//! reports is in `docs/joining.md`.

use jiff::{SignedDuration, Timestamp};
use master::pki::Pki;
use serde_json::{Value, json};
use tests::{Master, trusting};

use crate::master_joining::machine::{CLIENT, Machine, REQUESTS, SERVING, Shows, admin, make, token};

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
}

#[tokio::test]
async fn complaint_expired_token_hangs_but_is_reported_at_once_with_the_remedy() {
    let master = Master::running().await;
    let machine = Machine::new();
    let expiration = Timestamp::now() - SignedDuration::from_mins(1);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system"},
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "expiration": expiration.to_string(),
        },
    });
    make(&master, "/api/v1/namespaces/kube-system/secrets", &secret).await;
    let request = machine.request("kubelet:n1", "");
    let shows = Shows::Token("abcdef.0123456789abcdef");
    let (code, response) = machine.request_certificate(&master, &shows, ("a", CLIENT), &request).await;
    let message = response["message"].as_str().unwrap();
    assert!(code == 401 && message.contains("has expired"), "{response}");
    let command = message.split('`').nth(1).unwrap();
    let arguments = command.strip_prefix("kubectl ").unwrap().replace('\'', "");
    admin(&master, &arguments).await;
    assert_eq!(
        machine.request_certificate(&master, &shows, ("a", CLIENT), &request).await.0,
        201,
        "{command}"
    );
    // An unknown token ID and a wrong secret give the same error.
    for unknown in ["abcdef.ffffffffffffffff", "ffffff.0123456789abcdef"] {
        let (code, response) =
            machine.request_certificate(&master, &Shows::Token(unknown), ("b", CLIENT), &request).await;
        let message = response["message"].as_str().unwrap();
        assert!(
            code == 401 && message.contains("no such bootstrap token") && !message.contains("expired on"),
            "{response}"
        );
    }
}

#[tokio::test]
async fn complaint_clock_skew_is_unnoticed_but_cluster_info_has_the_server_time() {
    let master = Master::running().await;
    let anonymous = trusting(&master.admin().unwrap().authority, None).unwrap();
    let (_, text) = master.send_request(&anonymous, "/bootstrap/v1/cluster-info").await.unwrap();
    let response: Value = serde_json::from_str(&text).unwrap();
    let time: Timestamp = response["serverTime"].as_str().unwrap().parse().unwrap();
    assert!(time.duration_since(Timestamp::now()).abs() < SignedDuration::from_mins(1), "{response}");
}

#[tokio::test]
async fn complaint_serving_requests_stay_pending_one_approval_covers_both_certificates() {
    let master = Master::running().await;
    let machine = Machine::new();
    let request = machine.request("kubelet:n1", "");
    machine.request_certificate(&master, &Shows::Nothing, ("client", CLIENT), &request).await;
    admin(&master, "certificate approve client").await;
    let certificate = machine.is_signed(&master, &Shows::Nothing, "client").await;
    let shows = Shows::Certificate(&certificate);
    let serving = machine.request("kubelet:n1", "DNS:n1,IP:127.0.0.1");
    let (code, made) = machine.request_certificate(&master, &shows, ("serving", SERVING), &serving).await;
    assert_eq!(code, 201, "{made}");
    machine.is_signed(&master, &shows, "serving").await;
    // A certificate for another node's name or address is not issued.
    let foreign = machine.request("kubelet:n2", "DNS:n2");
    let (code, response) = machine.request_certificate(&master, &shows, ("foreign", SERVING), &foreign).await;
    assert!(code == 403 && response["message"].as_str().unwrap().contains("CN=system:node:n1"), "{response}");
}

#[tokio::test]
async fn complaint_reinstalled_node_is_rejected_but_joins_after_deletion_or_approval() {
    let mut master =
        Master::new().with_flags(["--csr-approval-policy=token", "--node-admission=certificate"]);
    master.start().await;
    let token = token(&master, "abcdef", "").await;
    let bearer = Shows::Token(&token);
    let (first, second, third) = (Machine::new(), Machine::new(), Machine::new());
    let joins = async |machine: &Machine, name: &str| {
        let request = machine.request("kubelet:n1", "");
        let (code, made) = machine.request_certificate(&master, &bearer, (name, CLIENT), &request).await;
        assert_eq!(code, 201, "{made}");
    };
    joins(&first, "first").await;
    let old = first.is_signed(&master, &bearer, "first").await;
    // A rebuilt machine has a new key. After its Node was deleted, it joins like a new machine.
    admin(&master, "delete node n1").await;
    joins(&second, "second").await;
    let reissued = second.is_signed(&master, &bearer, "second").await;
    // While its Node exists, an administrator confirms that it is the same machine.
    joins(&third, "third").await;
    admin(&master, "certificate approve third").await;
    let approved = third.is_signed(&master, &bearer, "third").await;
    for (machine, certificate, expected) in
        [(&first, &old, 403), (&second, &reissued, 403), (&third, &approved, 200)]
    {
        let shows = Shows::Certificate(certificate);
        let (code, response) = machine.sends(&master, &shows, "/api/v1/nodes/n1", None).await;
        assert_eq!(code, expected, "{response}");
    }
}

#[tokio::test]
async fn complaint_node_with_an_expired_certificate_is_lost_but_is_approved_again() {
    let master = Master::running().await;
    let machine = Machine::new();
    make(&master, "/api/v1/nodes", &node("n1")).await;
    // An expired certificate: the master rejects it.
    let pki = Pki::read(&master.data_dir().join("pki"), Timestamp::now()).unwrap();
    let long_ago = Timestamp::now() - SignedDuration::from_hours(24 * 366);
    let ended = pki.client("kubelet:n1", &["system:nodes".to_owned()], long_ago).unwrap();
    let authority = &master.admin().unwrap().authority;
    let client = trusting(authority, Some((&ended.certificates, &ended.key))).unwrap();
    let refused = master.send_request(&client, "/api/v1/nodes/n1").await;
    assert!(refused.as_ref().is_err_and(|why| why.to_lowercase().contains("expired")), "{refused:?}");
    let request = machine.request("kubelet:n1", "");
    machine.request_certificate(&master, &Shows::Nothing, ("again", CLIENT), &request).await;
    assert!(admin(&master, "get csr again").await.contains("Pending"));
    admin(&master, "certificate approve again").await;
    let certificate = machine.is_signed(&master, &Shows::Nothing, "again").await;
    let (code, _) = machine.sends(&master, &Shows::Certificate(&certificate), "/api/v1/nodes/n1", None).await;
    assert_eq!(code, 200);
}

#[tokio::test]
async fn complaint_any_token_claims_any_name_but_a_bound_one_claims_only_its_own() {
    let mut master = Master::new().with_flags(["--csr-approval-policy=token"]);
    master.start().await;
    let machine = Machine::new();
    make(&master, "/api/v1/nodes", &node("taken")).await;
    let bound = token(&master, "bbbbbb", "system:bootstrappers:node:n1").await;
    let free = token(&master, "aaaaaa", "").await;
    for (name, token, node, expected) in
        [("own", &bound, "n1", "Approved"), ("other", &bound, "n2", "Denied"), ("taken", &free, "taken", "")]
    {
        let request = machine.request(&format!("kubelet:{node}"), "");
        machine.request_certificate(&master, &Shows::Token(token), (name, CLIENT), &request).await;
        if expected.is_empty() {
            // The request waits for an administrator; the master logs this.
            let waits = async || {
                let log = master.log();
                if log.contains("node taken exists already") { Ok(()) } else { Err(log) }
            };
            tests::wait_until(tests::DEADLINE, waits).await.unwrap();
            let (_, seen) =
                machine.sends(&master, &Shows::Token(token), &format!("{REQUESTS}/taken"), None).await;
            assert_eq!(seen["status"], json!({}), "{seen}");
        } else {
            machine.has_condition(&master, name, expected).await;
        }
    }
}
