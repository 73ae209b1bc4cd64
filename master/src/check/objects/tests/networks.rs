//! Tests of nodes whose pods have no network.

use serde_json::json;

use super::{finding_lines, node, ready};

const WHY: &str = "no range: give one";

/// The findings for such a node, which is ready unless a reason is given.
fn networkless(why_not_ready: &str) -> Vec<String> {
    let ready = match why_not_ready {
        "" => ready()[0].clone(),
        why => json!({"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": why}),
    };
    let reason = "PodNetworkNotReady";
    let network = json!({"type": "NetworkUnavailable", "status": "True", "reason": reason, "message": WHY});
    finding_lines(&json!({"nodes": [node("a", &json!([ready, network]), json!({}))]}))
}

#[test]
fn a_node_that_is_not_ready_for_its_network_is_one_finding() {
    let once = format!("!Node a: is not ready, because its pods have no network: {WHY}");
    assert_eq!(networkless(&format!("container runtime network not ready: {WHY}")), [once]);
    let alone = format!("!Node a: its pods have no network: {WHY}");
    assert_eq!(networkless("").join("; "), alone);
    assert_eq!(networkless("no engine"), ["!Node a: is not ready: KubeletNotReady: no engine", &alone]);
}
