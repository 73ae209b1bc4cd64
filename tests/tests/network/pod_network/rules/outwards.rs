//! Pods use their own source addresses within the cluster, and the node's address outside of it.

use std::net::UdpSocket;

use kubelet::network::nft::{Error, Node, Rules, Watch};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use tests::DEADLINE;

use super::stage::{At, BRIDGE, Stage, WHO, bracketed, ensure, far_pod, node, run};

#[tokio::test]
async fn only_traffic_that_leaves_the_cluster_is_masqueraded() {
    let stage = Stage::new().await;
    let to = |address: &str| format!("{}:{WHO}", bracketed(address));
    stage.assert_received(At::PodA, &to("192.0.2.2"), At::Outside, "10.88.1.2");
    ensure(&node(), &[]);
    for version in [4, 6] {
        let pod = At::PodA.address(version);
        stage.assert_received(
            At::PodA,
            &to(At::Outside.address(version)),
            At::Outside,
            At::Node.address(version),
        );
        stage.assert_received(At::PodA, &to(At::PodB.address(version)), At::PodB, pod);
        stage.assert_received(At::PodA, &to(far_pod(version)), At::Outside, pod);
        // Requests from outside keep their source address as well.
        stage.assert_received(At::Outside, &to(pod), At::PodA, At::Outside.address(version));
    }

    // Without a known cluster CIDR only traffic to the node's own pod CIDRs is exempt from masquerading.
    let alone = Node { cluster: vec![], ..node() };
    assert!(ensure(&alone, &[]).cluster);
    for version in [4, 6] {
        let pod = At::PodA.address(version);
        stage.assert_received(At::PodA, &to(far_pod(version)), At::Outside, At::Node.address(version));
        stage.assert_received(At::PodA, &to(At::PodB.address(version)), At::PodB, pod);
    }
    assert!(ensure(&alone, &[]).is_nothing());
}

#[tokio::test]
async fn existing_flows_lose_masquerade_when_a_node_becomes_known() {
    let stage = Stage::new().await;
    let alone = Node { cluster: vec![], ..node() };
    for version in [4, 6] {
        ensure(&alone, &[]);
        let (pod, own) = (At::PodA.address(version), At::Node.address(version));
        let far = UdpPair::new(&stage, far_pod(version));
        let beyond = UdpPair::new(&stage, At::Outside.address(version));
        assert_eq!([far.observed_source(), beyond.observed_source()], [own, own]);
        assert!(ensure(&node(), &[]).cluster);
        assert_eq!([far.observed_source(), beyond.observed_source()], [pod, own]);
    }
}

/// A pod that sends from the same UDP port each time, and the external server.
struct UdpPair {
    client: UdpSocket,
    server: UdpSocket,
}

impl UdpPair {
    fn new(stage: &Stage, at: &str) -> Self {
        let server = stage.at(At::Outside, || UdpSocket::bind((at, 0)).unwrap());
        server.set_read_timeout(Some(DEADLINE)).unwrap();
        let client = stage.at(At::PodA, || {
            UdpSocket::bind((At::PodA.address(if at.contains(':') { 6 } else { 4 }), 0)).unwrap()
        });
        Self { client, server }
    }

    /// The client address that the server sees.
    fn observed_source(&self) -> String {
        self.client.send_to(b"?", self.server.local_addr().unwrap()).unwrap();
        let (_, peer) = self.server.recv_from(&mut [0; 10]).unwrap();
        peer.ip().to_string()
    }
}

#[tokio::test]
async fn a_removed_node_leaves_no_rules() {
    let _stage = Stage::new().await;
    run("iptables -P FORWARD DROP");
    run("nft add table inet other");
    // `nft` warns on standard error that the table of `iptables`, with the rule for Services, is managed by `iptables`.
    let ruleset = || run("nft list ruleset 2>/dev/null");
    let before = ruleset();
    ensure(&node(), &[]);
    let mut rules = Rules::open().unwrap();
    assert_ne!(ruleset(), before);
    rules.remove(BRIDGE).unwrap();
    assert_eq!(ruleset(), before);
    rules.remove(BRIDGE).unwrap();
    assert_eq!(ruleset(), before);
}

#[tokio::test]
async fn without_net_admin_the_error_names_the_capability() {
    let _stage = Stage::new().await;
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::NET_ADMIN);
    set_capabilities(None, sets).unwrap();
    let errors = [Rules::open().err().unwrap(), Watch::new().err().unwrap()];
    sets.effective.insert(CapabilitySet::NET_ADMIN);
    set_capabilities(None, sets).unwrap();
    for error in errors {
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        assert!(error.to_string().contains("needs CAP_NET_ADMIN"), "{error}");
    }
}
