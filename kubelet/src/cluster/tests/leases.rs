//! Two kubelets with certificates of one node name: the one that holds the lease is the node.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::super::lease::NodeLease;
use super::super::{EventReporter, Outbox};
use super::stock::Stock;

const NODE: &str = "/api/v1/nodes/n1";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1";
const WITHIN: Duration = Duration::from_secs(30);

/// The lease as another kubelet has renewed it.
fn renewed_by_other(ago: SignedDuration) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "n1", "annotations": {"coracle.io/kubelet-instance": "other"}},
        "spec": {"holderIdentity": "n1", "leaseDurationSeconds": 40, "renewTime": (Timestamp::now() - ago).to_string()},
    })
}

#[tokio::test]
async fn kubelet_with_a_taken_name_runs_no_pods_and_reports_why() {
    let node = json!({
        "metadata": {"name": "n1"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.9"}], "nodeInfo": {"machineID": "m9"}},
    });
    let now = SignedDuration::ZERO;
    let (stock, api) = Stock::start(&[(NODE, node), (LEASE, renewed_by_other(now))]).await;
    let (connection, apis) = watch::channel(Some(api.clone()));
    let (granted, mut access) = watch::channel(None);
    let outbox = Outbox::new();
    let lease = NodeLease {
        node: "n1".to_owned(),
        instance: Some("own".to_owned()),
        apis,
        granted,
        reporter: EventReporter::new("n1", outbox.clone()),
    };
    let running = tokio::spawn(lease.run());
    let until_reported = async |reason: &str| {
        let mut conflict = None;
        let look = async {
            loop {
                let mail = outbox.take().await;
                conflict = mail.name_conflict.or(conflict.take());
                if let Some(note) = mail.notes.iter().find(|note| note.reason == reason) {
                    return (note.message.clone(), conflict);
                }
            }
        };
        timeout(WITHIN, look).await.unwrap_or_else(|_| panic!("{reason} was not reported"))
    };
    let (message, conflict) = until_reported("NodeNameInUse").await;
    assert!(
        message.contains("192.0.2.9") && message.contains("m9") && message.contains("--hostname-override"),
        "{message}"
    );
    assert_eq!(conflict, Some(Some(message)), "`kubelet get nodes` shows it");
    assert!(access.borrow().is_none(), "no task acts as the node");
    assert_eq!(stock.object(LEASE)["metadata"]["annotations"]["coracle.io/kubelet-instance"], "other");

    // The other machine stops: its lease expires, and the next renewal takes it.
    stock.put(LEASE, renewed_by_other(SignedDuration::from_secs(41)));
    connection.send_replace(Some(api.clone()));
    assert!(timeout(WITHIN, access.wait_for(Option::is_some)).await.unwrap().is_ok());
    until_reported("NodeNameFree").await;
    assert_eq!(stock.object(LEASE)["metadata"]["annotations"]["coracle.io/kubelet-instance"], "own");

    // It comes back and takes the lease: this kubelet stops acting as the node at its next renewal.
    stock.put(LEASE, renewed_by_other(now));
    connection.send_replace(Some(api));
    assert!(timeout(WITHIN, access.wait_for(Option::is_none)).await.unwrap().is_ok());
    running.abort();
}
