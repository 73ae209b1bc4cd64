//! Pods go by their own addresses within the cluster, and by that of their node beyond.

use kubelet::network::nft::{Error, Node, Rules, Watch};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::stage::{At, BRIDGE, Stage, WHO, bracketed, ensure, far_pod, node, run};

#[tokio::test]
async fn only_what_leaves_the_cluster_is_masqueraded() {
    let stage = Stage::new().await;
    let to = |address: &str| format!("{}:{WHO}", bracketed(address));
    stage.assert_heard(At::PodA, &to("192.0.2.2"), At::Outside, "10.88.1.2");
    ensure(&node(), &[]);
    for version in [4, 6] {
        let pod = At::PodA.address(version);
        stage.assert_heard(
            At::PodA,
            &to(At::Outside.address(version)),
            At::Outside,
            At::Node.address(version),
        );
        stage.assert_heard(At::PodA, &to(At::PodB.address(version)), At::PodB, pod);
        stage.assert_heard(At::PodA, &to(far_pod(version)), At::Outside, pod);
        // The way in is nobody else's address either.
        stage.assert_heard(At::Outside, &to(pod), At::PodA, At::Outside.address(version));
    }

    // Nothing is known of a cluster: only the node's own addresses are not masqueraded.
    let alone = Node { cluster: vec![], ..node() };
    assert!(ensure(&alone, &[]).cluster);
    for version in [4, 6] {
        let pod = At::PodA.address(version);
        stage.assert_heard(At::PodA, &to(far_pod(version)), At::Outside, At::Node.address(version));
        stage.assert_heard(At::PodA, &to(At::PodB.address(version)), At::PodB, pod);
    }
    assert!(ensure(&alone, &[]).is_nothing());
}

#[tokio::test]
async fn nothing_is_left_of_a_node_that_goes() {
    let _stage = Stage::new().await;
    run("iptables -P FORWARD DROP");
    run("nft add table inet other");
    let before = run("nft list ruleset");
    ensure(&node(), &[]);
    let mut rules = Rules::open().unwrap();
    assert_ne!(run("nft list ruleset"), before);
    rules.remove(BRIDGE).unwrap();
    assert_eq!(run("nft list ruleset"), before);
    rules.remove(BRIDGE).unwrap();
    assert_eq!(run("nft list ruleset"), before);
}

#[tokio::test]
async fn a_process_that_may_not_is_told_what_it_needs() {
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
