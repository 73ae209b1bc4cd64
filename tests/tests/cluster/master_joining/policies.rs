//! Tests each approval policy on a separate master, and a machine that sends too many requests.

use tests::Master;

use crate::master_joining::machine::{CLIENT, Machine, Shows, token};

async fn master(flags: &[&str]) -> Master {
    let mut master = Master::new().with_flags(flags.iter().copied());
    master.start().await;
    master
}

#[tokio::test]
async fn new_nodes_are_approved_by_policy() {
    let machine = Machine::new();
    let policy = |name: &'static str| format!("--csr-approval-policy={name}");
    for (flags, node, expected) in [
        (vec![policy("always-reject")], "n1", "Denied"),
        (vec![policy("insecure-always-approve")], "n1", "Approved"),
        (vec![policy("allowlist"), "--csr-approval-allowlist=127.0.0.0/8,n*".to_owned()], "n1", "Approved"),
        (vec![policy("allowlist"), "--csr-approval-allowlist=10.0.0.0/8".to_owned()], "n1", "Denied"),
    ] {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let master = master(&flags).await;
        let request = machine.request(&format!("kubelet:{node}"), "");
        let (code, made) =
            machine.request_certificate(&master, &Shows::Nothing, ("a", CLIENT), &request).await;
        assert_eq!(code, 201, "{made}");
        machine.has_condition(&master, "a", expected).await;
        if expected == "Approved" {
            let certificate = machine.is_signed(&master, &Shows::Nothing, "a").await;
            assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        }
    }
}

#[tokio::test]
async fn token_policy_approves_only_nodes_of_the_token() {
    let master = master(&["--csr-approval-policy", "token"]).await;
    let machine = Machine::new();
    let (free, bound) =
        (token(&master, "aaaaaa", "").await, token(&master, "bbbbbb", "system:bootstrappers:node:n1").await);
    for (name, shows, node, expected) in [
        ("nobody", Shows::Nothing, "n1", "Denied"),
        ("free", Shows::Token(&free), "n2", "Approved"),
        ("own", Shows::Token(&bound), "n1", "Approved"),
        ("other", Shows::Token(&bound), "n3", "Denied"),
    ] {
        let request = machine.request(&format!("kubelet:{node}"), "");
        machine.request_certificate(&master, &shows, (name, CLIENT), &request).await;
        machine.has_condition(&master, name, expected).await;
    }
}

#[tokio::test]
async fn a_machine_with_too_many_requests_gets_retry_after() {
    let master = Master::running().await;
    let machine = Machine::new();
    let request = machine.request("kubelet:n1", "");
    for number in 0..10 {
        let name = format!("try-{number}");
        let (code, made) =
            machine.request_certificate(&master, &Shows::Nothing, (&name, CLIENT), &request).await;
        assert_eq!(code, 201, "{made}");
    }
    let (code, refused) =
        machine.request_certificate(&master, &Shows::Nothing, ("once-more", CLIENT), &request).await;
    assert_eq!(code, 429, "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("10 requests of the node n1 are undecided"), "{message}");
    let other = machine.request("kubelet:n2", "");
    let (code, _) = machine.request_certificate(&master, &Shows::Nothing, ("other", CLIENT), &other).await;
    assert_eq!(code, 201);
}
