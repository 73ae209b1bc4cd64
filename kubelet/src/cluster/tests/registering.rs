//! What the kubelet repairs in its Node, and how soon, at a server that merges patches as stock servers do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::super::registration::NodeRegistration;
use super::super::{Arc, EventReporter, Outbox};
use super::stock::Stock;

const NODE: &str = "/api/v1/nodes/n1";
/// The stock kubelet repairs within `nodeStatusUpdateFrequency`.
const WITHIN: Duration = Duration::from_secs(10);

/// Waits until the Node satisfies the condition. Returns how long that took.
async fn until(stock: &Stock, what: &str, holds: impl Fn(&Value) -> bool) -> Duration {
    let start = Instant::now();
    let look = async {
        let mut versions = stock.versions();
        while !holds(&stock.object(NODE)) {
            versions.changed().await.unwrap();
        }
    };
    if timeout(WITHIN * 3, look).await.is_err() {
        panic!("{what}: {}", stock.object(NODE));
    }
    start.elapsed()
}

#[tokio::test]
async fn kubelet_repairs_foreign_status_changes_within_ten_seconds() {
    let bare =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {}, "status": {}});
    let (stock, api) = Stock::start(&[(NODE, bare)]).await;
    let (version, versions) = watch::channel(String::new());
    let (extended, mut advertised) = watch::channel(Default::default());
    let mut shown = super::shown("True", "h");
    shown["status"]["allocatable"] = json!({"cpu": "2"});
    let (_apis, apis) = watch::channel(Some(api));
    let (_shown, shown) = watch::channel(Arc::new(shown));
    let register = NodeRegistration {
        node: "n1".to_owned(),
        wanted: Vec::new(),
        chosen: Vec::new(),
        members: watch::channel(None).1,
        apis,
        shown,
        missing: Arc::default(),
        version: versions,
        extended,
        reporter: EventReporter::new("n1", Outbox::new()),
    };
    let running = tokio::spawn(register.run());
    let ready = |node: &Value| node["status"]["conditions"][0]["status"] == "True";
    until(&stock, "registered", ready).await;
    assert_eq!(
        stock.object(NODE)["status"]["addresses"],
        json!([{"type": "InternalIP", "address": "192.0.2.1"}])
    );

    // Another client, as the watch shows it.
    let mut changed = stock.object(NODE);
    changed["status"]["conditions"][0]["status"] = "Unknown".into();
    changed["status"]["capacity"] = json!({"cpu": "64", "example.com/dongle": "4"});
    let changed = stock.put(NODE, changed);
    version.send_replace(changed["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
    let took = until(&stock, "repaired", |node| {
        ready(node)
            && node["status"]["capacity"] == json!({"cpu": "2", "example.com/dongle": "4"})
            && node["status"]["allocatable"] == json!({"cpu": "2", "example.com/dongle": "4"})
    });
    assert!(took.await <= WITHIN + Duration::from_secs(1));
    let has_dongles = advertised.wait_for(|list| list.contains_key("example.com/dongle"));
    assert!(timeout(WITHIN, has_dongles).await.is_ok(), "admission gets the extended resources");

    assert_eq!(stock.rejected(), [""; 0]);
    running.abort();
}
