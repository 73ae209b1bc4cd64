//! Certificates with a lifetime of seconds: the kubelet renews them, and requests new ones where they have expired.

use std::collections::BTreeSet;
use std::time::Duration;

use tests::{DEADLINE, World, wait_until};

use crate::kubelet_joining::machine::{file, pem, started, wait_for_log};
use crate::kubelet_joining::stage::{Authorities, Rules, Stage};

const CLIENT: &str = "kubelet-client-current.pem";
const SERVING: &str = "kubelet-server-current.pem";

fn living(seconds: u64) -> Rules {
    Rules { life: Duration::from_secs(seconds), ..Rules::default() }
}

#[tokio::test]
async fn complaint_certificates_expire_but_are_renewed_while_the_kubelet_runs() {
    let stage = Stage::new(&Authorities::new(), living(5)).await;
    let node = started("rotate", &["--bootstrap", &stage.line()]).await;
    let mut seen = [BTreeSet::new(), BTreeSet::new()];
    let look = async || {
        // Usually needed once; again if the certificate has expired because the machine was suspended.
        stage.approve();
        for (name, seen) in [CLIENT, SERVING].iter().zip(&mut seen) {
            // A reader always finds a complete file.
            if let Ok(text) = std::fs::read_to_string(pem(&node, name)) {
                assert!(
                    text.contains("END CERTIFICATE") && text.trim_end().ends_with("END PRIVATE KEY-----"),
                    "{text}"
                );
                seen.insert(text);
            }
        }
        let counts = seen.each_ref().map(BTreeSet::len);
        if counts.iter().all(|count| *count >= 4) { Ok(()) } else { Err(format!("{counts:?}")) }
    };
    wait_until(DEADLINE, look).await.unwrap();
    assert!(stage.faults().is_empty(), "{:?}", stage.faults());
    // The first request is anonymous; each certificate is then renewed by the node itself.
    let own = format!("kubelet:{}", node.node);
    let csr_users: Vec<String> = stage
        .seen()
        .iter()
        .filter(|seen| seen.what.starts_with("POST"))
        .map(|seen| seen.user.clone())
        .collect();
    assert!(
        csr_users[0] == "anonymous" && csr_users.iter().filter(|user| **user == own).count() >= 4,
        "{csr_users:?}"
    );
}

#[tokio::test]
async fn complaint_node_with_an_expired_certificate_requests_a_new_one_with_its_ca() {
    let authorities = Authorities::new();
    let stage = Stage::new(&authorities, living(3)).await;
    let mut node = started("off", &["--bootstrap", &stage.line()]).await;
    let begun = async || {
        stage.approve();
        std::fs::read_to_string(pem(&node, CLIENT)).map_err(|error| error.to_string())
    };
    node.wait_for("the first certificate", begun).await;
    node.kill();
    // It may have been renewed before the kill.
    let before = file(&node, &pem(&node, CLIENT)).await;
    let over = async || {
        let life = master::pki::validities(before.as_bytes()).unwrap()[0].until;
        if life < jiff::Timestamp::now() { Ok(()) } else { Err(format!("it is good until {life}")) }
    };
    wait_until(DEADLINE, over).await.unwrap();
    let strangers = || {
        stage.seen().iter().filter(|seen| seen.what.starts_with("POST") && seen.user == "anonymous").count()
    };
    let csr_users = strangers();
    node.launch();
    let again = async || {
        stage.approve();
        if strangers() > csr_users { Ok(()) } else { Err("it has not asked".to_owned()) }
    };
    wait_until(DEADLINE, again).await.unwrap();
    let renewed = async || {
        stage.approve();
        let now = file(&node, &pem(&node, CLIENT)).await;
        if now == before { Err("it has the old one".to_owned()) } else { Ok(()) }
    };
    wait_until(DEADLINE, renewed).await.unwrap();
}

#[tokio::test]
async fn complaint_server_with_a_new_ca_is_reported_as_another_cluster() {
    let stage = Stage::new(&Authorities::new(), Rules::default()).await;
    let line = stage.line();
    let mut node = started("anew", &["--bootstrap", &line]).await;
    wait_for_log(&node, "kubectl certificate approve").await;
    stage.approve();
    file(&node, &pem(&node, CLIENT)).await;
    file(&node, &node.root_dir().join("kubeconfig")).await;
    node.kill();
    let port = stage.leave().await;
    let other = Stage::at(port, &Authorities::new(), Rules::default(), jiff::SignedDuration::ZERO).await;
    node.launch();
    let log_line = wait_for_log(&node, "different cluster CA").await;
    let kubeconfig = node.root_dir().join("kubeconfig").display().to_string();
    assert!(log_line.contains(&kubeconfig) && log_line.contains("join-string"), "{log_line}");
    for seen in other.seen() {
        assert_eq!(seen.what, "GET /bootstrap/v1/cluster-info");
    }
}

#[tokio::test]
async fn the_serving_certificate_follows_the_addresses_of_the_node() {
    let stage = Stage::new(&Authorities::new(), Rules::default()).await;
    let mut node = World::new("moved").await.with_flags(["--bootstrap", &stage.line()]);
    node.launch();
    wait_for_log(&node, "kubectl certificate approve").await;
    stage.approve();
    let before = file(&node, &pem(&node, SERVING)).await;
    let client = file(&node, &pem(&node, CLIENT)).await;
    node.kill();
    node = node.with_flags(["--node-ip", "127.0.0.2"]);
    node.launch();
    let moved = async || {
        let now = file(&node, &pem(&node, SERVING)).await;
        if now == before { Err("it has the old one".to_owned()) } else { Ok(()) }
    };
    wait_until(DEADLINE, moved).await.unwrap();
    let addresses = stage.addresses();
    assert_eq!(addresses.len(), 3, "{addresses:?}");
    // The client certificate has no addresses; then come the machine's addresses, then the configured one.
    assert!(addresses[0].is_empty() && !addresses[1].is_empty(), "{addresses:?}");
    assert_eq!(addresses[2], BTreeSet::from(["127.0.0.2".parse().unwrap()]));
    assert_eq!(file(&node, &pem(&node, CLIENT)).await, client);
    assert!(stage.faults().is_empty(), "{:?}", stage.faults());
}
