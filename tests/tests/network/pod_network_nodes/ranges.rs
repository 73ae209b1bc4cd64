//! Two nodes claim one pod CIDR: the conflict is reported, and both work once one of them uses another pod CIDR.

use tests::Bed;

use crate::pod_network_nodes::asking::{Client, answering};
use crate::pod_network_nodes::cluster::{Cluster, WEB, at, condition, is_ready_with_range, web};

const CLAIMED: &str = "10.244.7.0/24";

#[tokio::test]
async fn older_node_keeps_a_pod_cidr_and_the_other_reports_the_conflict() {
    let (bed, machines) = Bed::with([1, 1]).await;
    let master = bed.master(&[]).await;
    let mut cluster = Cluster { bed, master, machines };
    let claim = ["--pod-cidr", CLAIMED];
    for number in [0, 1] {
        cluster.machines[number].join(&cluster.master, &claim).await;
        let machine = &cluster.machines[number];
        machine.node.write("web.yaml", &answering(WEB));
        if number == 0 {
            cluster.wait_for_node(machine, "the range it claims", is_ready_with_range).await;
            assert_eq!(cluster.range(machine).await, CLAIMED);
        }
    }
    let second = &cluster.machines[1];
    let other = cluster.range(second).await;
    assert_ne!(other, CLAIMED);
    let has_both = |node: &serde_json::Value| {
        let ready = condition(node, "Ready");
        let message = ready["message"].as_str().unwrap_or_default();
        ready["status"] == "False" && message.contains(CLAIMED) && message.contains(&other)
    };
    cluster.wait_for_node(second, "a condition that names both ranges", has_both).await;
    // The second node's pods wait for addresses that no other node claims.
    second.node.wait_for_event(WEB, "start the kubelet without --pod-cidr").await;
    // The first node is not affected.
    Client::Machine(&cluster.machines[0])
        .reaches(&at(&web(&cluster.machines[0]).await), &cluster.machines[0].node.pod_name(WEB))
        .await;

    cluster.machines[1].node.stop().await;
    cluster.machines[1].join(&cluster.master, &[]).await;
    cluster.wait_for_node(&cluster.machines[1], "a range and Ready", is_ready_with_range).await;
    let third = other.rsplit_once('.').unwrap().0;
    let in_range = |pod: &tests::Pod| pod.is_ready() && pod.ip().starts_with(third);
    cluster.machines[1].node.wait_for_pod(WEB, "to have an address of the node's own range", in_range).await;
    let [a, b] = &cluster.machines;
    for (from, to) in [(a, b), (b, a)] {
        let (own, other) = (web(from).await, web(to).await);
        Client::Pod(from, WEB).receives(&at(&other), &format!("{} sees {}", other.name(), own.ip())).await;
    }
}
