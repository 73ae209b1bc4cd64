//! A machine waits for the approval of an administrator, and meanwhile runs its own static pods.

use serde_json::Value;
use tests::DEADLINE;
use tests::manifest::sleeper;
use tests::wait_until;

use crate::kubelet_joining::machine::{
    CLIENT, SERVING, admin, file, is_in, line, master, pem, requests, started, wait_for_log,
};
use crate::kubelet_joining::stage::{Authorities, Rules, Stage};

#[tokio::test]
async fn complaint_serving_requests_stay_pending_but_one_approval_covers_both_while_own_pods_run() {
    let master = master(&[]).await;
    let mut node = started("queue", &["--bootstrap", &line(&master).await]).await;
    node.write("own.yaml", &sleeper("own"));
    let log_line = wait_for_log(&node, "kubectl certificate approve").await;
    node.wait_ready("own").await;
    // A kubelet that is killed while it waits finds its pending request by its key, and sends no other one.
    node.kill();
    node.launch();
    node.wait_ready("own").await;
    let look = async || {
        let events = node.get("events").await?;
        let is_reported = |event: &&Value| {
            event["message"].as_str().is_some_and(|text| text.contains("certificate approve"))
        };
        let events: Vec<&Value> = events.iter().filter(is_reported).collect();
        if events.is_empty() { Err("no event says what it waits for".to_owned()) } else { Ok(()) }
    };
    node.wait_for("an event that says what it waits for", look).await;
    let waiting = requests(&master, CLIENT).await;
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    let name = waiting[0]["metadata"]["name"].as_str().unwrap();
    assert!(log_line.contains(name) && log_line.contains(&node.node), "{log_line}");
    admin(&master, &["certificate", "approve", name]).await;
    is_in(&node, &master, "kubelet:").await;
    // One approval is enough: the serving certificate follows without another one.
    let serving = file(&node, &pem(&node, "kubelet-server-current.pem")).await;
    assert!(serving.contains("BEGIN CERTIFICATE") && serving.contains("PRIVATE KEY"));
    assert_eq!(requests(&master, SERVING).await.len(), 1);
    // A restart sends no request: the certificates are still valid.
    let before = file(&node, &pem(&node, "kubelet-client-current.pem")).await;
    node.stop().await;
    let begun = std::fs::read_to_string(node.log_path()).unwrap().len();
    node.start().await;
    let look = async || {
        let log = std::fs::read_to_string(node.log_path()).map_err(|error| error.to_string())?;
        let is_used = log[begun..].contains("the serving certificate of this node is valid until");
        if is_used { Ok(()) } else { Err(log) }
    };
    node.wait_for("the restarted kubelet to use its serving certificate", look).await;
    assert_eq!(file(&node, &pem(&node, "kubelet-client-current.pem")).await, before);
    assert_eq!(requests(&master, CLIENT).await.len(), 1);
}

#[tokio::test]
async fn a_denied_csr_is_reported_with_the_remedy_and_requested_again_after_its_deletion() {
    let master = master(&[]).await;
    let node = started("deny", &["--bootstrap", &line(&master).await]).await;
    wait_for_log(&node, "kubectl certificate approve").await;
    let name = requests(&master, CLIENT).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    admin(&master, &["certificate", "deny", &name]).await;
    let log_line = wait_for_log(&node, "was denied").await;
    assert!(log_line.contains(&format!("kubectl delete csr {name}")), "{log_line}");
    let uid = requests(&master, CLIENT).await[0]["metadata"]["uid"].clone();
    admin(&master, &["delete", "csr", &name]).await;
    let again = async || {
        let all = requests(&master, CLIENT).await;
        let other = all.iter().find(|request| request["metadata"]["uid"] != uid);
        other.map(|other| other["metadata"]["name"].clone()).ok_or_else(|| format!("{all:?}"))
    };
    assert_eq!(wait_until(DEADLINE, again).await.unwrap(), name.as_str());
    admin(&master, &["certificate", "approve", &name]).await;
    is_in(&node, &master, "kubelet:").await;
}

#[tokio::test]
async fn kubelet_waits_for_an_unreachable_master_before_and_after_its_csr() {
    let mut master = master(&[]).await;
    let line = line(&master).await;
    master.kill();
    let node = started("away", &["--bootstrap", &line]).await;
    wait_for_log(&node, "does not answer").await;
    master.start().await;
    wait_for_log(&node, "kubectl certificate approve").await;
    master.kill();
    master.start().await;
    let waiting = requests(&master, CLIENT).await;
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    admin(&master, &["certificate", "approve", waiting[0]["metadata"]["name"].as_str().unwrap()]).await;
    is_in(&node, &master, "kubelet:").await;
}

#[tokio::test]
async fn kubelet_respects_retry_after_of_csr_creation() {
    let rules = Rules { is_full: true, ..Rules::default() };
    let stage = Stage::new(&Authorities::new(), rules).await;
    let mut node = started("full", &["--bootstrap", &stage.line()]).await;
    let log_line = wait_for_log(&node, "answered 429").await;
    assert!(
        log_line.contains("10 requests of the node are undecided") && log_line.contains("kubectl get csr"),
        "{log_line}"
    );
    let post_count = || stage.seen().iter().filter(|seen| seen.what.starts_with("POST")).count();
    let events = post_count();
    // It runs its own static pods anyway, and retries only after the ten minutes that the server demands.
    node.write("own.yaml", &sleeper("own"));
    node.wait_ready("own").await;
    assert_eq!((events, post_count()), (1, 1));
    node.kill();
}
