//! Two nodes claim the same range or address: both are named, the older one keeps it, and the conflict ends once the other one changes.

use kubelet::network::native::bridge_of;

use super::stage::{At, Stage, address, range};
use crate::pod_network::rules::stage::run;

/// Asserts that a message contains both names and the disputed range or address.
fn assert_named(result: &kubelet::network::native::SyncResult, words: &[&str]) {
    let is_named = |text: &String| words.iter().all(|word| text.contains(word));
    assert!(result.warnings.iter().any(is_named), "{words:?}: {result:?}");
}

#[tokio::test]
async fn conflicting_pod_cidr_is_routed_to_the_older_node() {
    let mut stage = Stage::new().await;
    stage.settle_all();
    let mut connection = stage.connect(At::PodA, At::PodB, 4);
    stage.members[2].ranges[0] = range(1, 4);
    assert_named(&stage.sync(At::A), &["node-b", "node-c", "10.244.2.0/24", "delete node node-c"]);
    stage.assert_received(At::PodA, At::PodB, 4, &At::PodA.address(4));
    connection.assert_alive();
    // Both nodes report the conflict, and neither routes its own pods' packets to the other.
    assert_named(&stage.sync(At::B), &["node-b", "node-c", "10.244.2.0/24"]);
    assert_eq!(stage.at(At::B, || run("ip route show proto 67 10.244.2.0/24")), "");
    stage.members[2].ranges[0] = range(2, 4);
    stage.settle_all();
    stage.assert_all_connected();
    connection.assert_alive();
}

#[tokio::test]
async fn conflicting_node_address_belongs_to_the_older_node() {
    let mut stage = Stage::new().await;
    stage.members[2].addresses[0] = address("192.0.2.2");
    stage.members[2].addresses.pop();
    assert_named(&stage.sync(At::A), &["node-b", "node-c", "192.0.2.2", "--node-ip"]);
    // node-c claims this machine's own address but does not run on it.
    assert_named(&stage.sync(At::B), &["node-b", "node-c", "192.0.2.2", "belongs to this machine"]);
    stage.members[2] = super::stage::member(At::C);
    stage.settle_all();
    stage.assert_all_connected();
}

#[tokio::test]
async fn node_on_the_same_machine_gets_no_route() {
    let mut stage = Stage::new().await;
    stage.members[2].addresses = vec![address("192.0.2.1")];
    stage.at(At::A, || run(&format!("ip link add {} type bridge", bridge_of("node-c"))));
    let result = stage.sync(At::A);
    assert_eq!((result.failed, result.warnings), (None, [].into()));
    assert!(result.cluster.unwrap().contains(&range(2, 4)));
    assert_eq!(stage.at(At::A, || run("ip route show 10.244.3.0/24")), "");
}

#[tokio::test]
async fn pod_cidr_that_contains_nodes_gets_no_route() {
    let mut stage = Stage::new().await;
    for claimed in ["0.0.0.0/0", "198.51.100.0/24", "192.0.2.0/24", "127.0.0.0/8"] {
        stage.members[1].ranges[0] = claimed.parse().unwrap();
        assert_named(&stage.sync(At::A), &["node-b", claimed]);
        stage.sync(At::C);
        stage.assert_received(At::PodA, At::PodC, 4, &At::PodA.address(4));
    }
}
