//! Whom a machine believes: the cluster of its line, and nobody else; others are sent nothing.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tests::free_port;

use crate::machine::{pem, says, started};
use crate::stage::{Authorities, Rules, Stage};

#[tokio::test]
async fn who_trusted_at_first_sight_trusts_no_second_stranger_after_a_restart() {
    let stage = Stage::new(&Authorities::new(), Rules::default()).await;
    let flags = ["--bootstrap", stage.server(), "--bootstrap-insecure-trust-on-first-use"];
    let mut node = started("second", &flags).await;
    says(&node, "kubectl certificate approve").await;
    // It still waits, and is killed.
    node.kill();
    let port = stage.leave().await;
    let other = Stage::at(port, &Authorities::new(), Rules::default(), SignedDuration::ZERO).await;
    node.launch();
    says(&node, "different cluster CA").await;
    assert!(other.seen().iter().all(|seen| seen.what == "GET /bootstrap/v1/cluster-info"));
}

/// All that a stage was sent is the question for the public document, by nobody.
fn was_sent_nothing(stage: &Stage) {
    for seen in stage.seen() {
        assert_eq!((seen.what.as_str(), seen.user.as_str()), ("GET /bootstrap/v1/cluster-info", "nobody"));
    }
    assert!(!stage.seen().is_empty());
}

#[tokio::test]
async fn a_wrong_hash_a_swapped_authority_and_a_middleman_are_sent_nothing() {
    let (ours, theirs) = (Authorities::new(), Authorities::new());
    let document = |root: String, server: &str| {
        json!({"apiVersion": "bootstrap/v1", "kind": "ClusterInfo", "servers": [server], "certificateAuthority": root,
            "nodeUserPrefix": "kubelet:", "serverTime": Timestamp::now().to_string()})
    };
    // Another cluster answers at the address of the line.
    let other = Stage::new(&theirs, Rules::default()).await;
    // A middleman passes on what is public, and shows what he has.
    let passed = Rules { document: Some(document(ours.root(), "https://127.0.0.1:1")), ..Rules::default() };
    let middleman = Stage::new(&theirs, passed).await;
    // A middleman adds his authority to the cluster's.
    let both = document(format!("{}{}", ours.root(), theirs.root()), "https://127.0.0.1:1");
    let adding = Stage::new(&theirs, Rules { document: Some(both), ..Rules::default() }).await;
    for (stage, expected) in [
        (&other, "different cluster CA than the join string"),
        (&middleman, "different cluster CA"),
        (&adding, "different cluster CA"),
    ] {
        let line = format!("{}#sha256:{}", stage.server(), ours.hash());
        let mut node = started("trust", &["--bootstrap", &line]).await;
        let said = says(&node, expected).await;
        assert!(said.contains("nothing was sent to it"), "{said}");
        node.kill();
        was_sent_nothing(stage);
        // What asks for nothing has no key yet, and certainly no certificate.
        assert!(!pem(&node, "kubelet-client-current.pem").exists());
    }
}

#[tokio::test]
async fn complaint_clock_skew_is_told_as_what_it_is() {
    let authorities = Authorities::new();
    for (days, expected) in [(400, "does not hold yet"), (-400, "has expired")] {
        let clock = SignedDuration::from_hours(24 * days);
        let stage = Stage::at(free_port(), &authorities, Rules::default(), clock).await;
        let node = started("clock", &["--bootstrap", &stage.line()]).await;
        let said = says(&node, "set the clock").await;
        let year = (Timestamp::now() + clock).to_string()[..4].to_owned();
        assert!(said.contains(expected) && said.contains(&format!("the server's says {year}")), "{said}");
        was_sent_nothing(&stage);
    }
}

#[tokio::test]
async fn who_trusts_at_first_sight_says_so_and_gets_in() {
    let stage = Stage::new(&Authorities::new(), Rules::default()).await;
    let flags = ["--bootstrap", stage.server(), "--bootstrap-insecure-trust-on-first-use"];
    let node = started("first", &flags).await;
    says(&node, "kubectl certificate approve").await;
    // Whoever takes the place of the one who was trusted is not.
    let authorities = stage.authorities();
    let port = stage.leave().await;
    let other = Stage::at(port, &Authorities::new(), Rules::default(), SignedDuration::ZERO).await;
    says(&node, "different cluster CA").await;
    assert!(
        other.seen().iter().all(|seen| seen.what == "GET /bootstrap/v1/cluster-info"),
        "{:?}",
        other.seen()
    );
    let port = other.leave().await;
    let stage = Stage::at(port, &authorities, Rules::default(), SignedDuration::ZERO).await;
    let asked = async || if stage.approve() == 1 { Ok(()) } else { Err("it has not asked again".to_owned()) };
    node.wait_for("the request", asked).await;
    says(&node, "the serving certificate of this node is good until").await;
    assert!(stage.faults().is_empty(), "{:?}", stage.faults());
}
