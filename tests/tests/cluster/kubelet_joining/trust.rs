//! A machine trusts only the cluster of its join string; it sends no credentials or certificate requests to other servers.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tests::free_port;

use crate::kubelet_joining::machine::{pem, started, wait_for_log};
use crate::kubelet_joining::stage::{Authorities, Rules, Stage};

#[tokio::test]
async fn after_trust_on_first_use_a_restart_trusts_no_other_ca() {
    let stage = Stage::new(&Authorities::new(), Rules::default()).await;
    let flags = ["--bootstrap", stage.server(), "--bootstrap-insecure-trust-on-first-use"];
    let mut node = started("second", &flags).await;
    wait_for_log(&node, "kubectl certificate approve").await;
    // The kubelet still waits for its approval, and is killed.
    node.kill();
    let port = stage.leave().await;
    let other = Stage::at(port, &Authorities::new(), Rules::default(), SignedDuration::ZERO).await;
    node.launch();
    wait_for_log(&node, "different cluster CA").await;
    assert!(other.seen().iter().all(|seen| seen.what == "GET /bootstrap/v1/cluster-info"));
}

/// Asserts that a stage received only anonymous requests for the public bootstrap document.
fn was_sent_nothing(stage: &Stage) {
    for seen in stage.seen() {
        assert_eq!((seen.what.as_str(), seen.user.as_str()), ("GET /bootstrap/v1/cluster-info", "anonymous"));
    }
    assert!(!stage.seen().is_empty());
}

#[tokio::test]
async fn kubelet_sends_nothing_to_servers_with_a_wrong_ca() {
    let (ours, theirs) = (Authorities::new(), Authorities::new());
    let document = |root: String, server: &str| {
        json!({"apiVersion": "bootstrap/v1", "kind": "ClusterInfo", "servers": [server], "certificateAuthority": root,
            "nodeUserPrefix": "kubelet:", "serverTime": Timestamp::now().to_string()})
    };
    // Another cluster answers at the address of the join string.
    let other = Stage::new(&theirs, Rules::default()).await;
    // A man in the middle forwards public data, but has another certificate.
    let passed = Rules { document: Some(document(ours.root(), "https://127.0.0.1:1")), ..Rules::default() };
    let middleman = Stage::new(&theirs, passed).await;
    // A man in the middle adds his authority to the cluster's.
    let both = document(format!("{}{}", ours.root(), theirs.root()), "https://127.0.0.1:1");
    let adding = Stage::new(&theirs, Rules { document: Some(both), ..Rules::default() }).await;
    for (stage, expected) in [
        (&other, "different cluster CA than the join string"),
        (&middleman, "different cluster CA"),
        (&adding, "different cluster CA"),
    ] {
        let line = format!("{}#sha256:{}", stage.server(), ours.hash());
        let mut node = started("trust", &["--bootstrap", &line]).await;
        let log_line = wait_for_log(&node, expected).await;
        assert!(log_line.contains("nothing was sent to it"), "{log_line}");
        node.kill();
        was_sent_nothing(stage);
        // A kubelet that sends no request has no key yet, and no certificate.
        assert!(!pem(&node, "kubelet-client-current.pem").exists());
    }
}

#[tokio::test]
async fn complaint_clock_skew_is_reported_as_clock_skew() {
    let authorities = Authorities::new();
    for (days, expected) in [(400, "is not valid yet"), (-400, "has expired")] {
        let clock = SignedDuration::from_hours(24 * days);
        let stage = Stage::at(free_port(), &authorities, Rules::default(), clock).await;
        let node = started("clock", &["--bootstrap", &stage.line()]).await;
        let log_line = wait_for_log(&node, "set the clock").await;
        let year = (Timestamp::now() + clock).to_string()[..4].to_owned();
        assert!(
            log_line.contains(expected) && log_line.contains(&format!("the server's says {year}")),
            "{log_line}"
        );
        was_sent_nothing(&stage);
    }
}

#[tokio::test]
async fn trust_on_first_use_needs_an_explicit_flag() {
    let stage = Stage::new(&Authorities::new(), Rules::default()).await;
    let flags = ["--bootstrap", stage.server(), "--bootstrap-insecure-trust-on-first-use"];
    let node = started("first", &flags).await;
    wait_for_log(&node, "kubectl certificate approve").await;
    // A server that replaces the trusted one is not trusted.
    let authorities = stage.authorities();
    let port = stage.leave().await;
    let other = Stage::at(port, &Authorities::new(), Rules::default(), SignedDuration::ZERO).await;
    wait_for_log(&node, "different cluster CA").await;
    assert!(
        other.seen().iter().all(|seen| seen.what == "GET /bootstrap/v1/cluster-info"),
        "{:?}",
        other.seen()
    );
    let port = other.leave().await;
    let stage = Stage::at(port, &authorities, Rules::default(), SignedDuration::ZERO).await;
    let is_requested =
        async || if stage.approve() == 1 { Ok(()) } else { Err("it has not asked again".to_owned()) };
    node.wait_for("the request", is_requested).await;
    wait_for_log(&node, "the serving certificate of this node is valid until").await;
    assert!(stage.faults().is_empty(), "{:?}", stage.faults());
}
