//! Cleanup of the network leftovers of killed test nodes; everything else stays.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use kubelet::network::native::{bridge_of, services_table_of};
use tests::host::{ip, run};
use tests::{Host, network};

/// Creates the nftables tables of a node, and returns the name of its bridge.
fn rules_of(node: &str) -> String {
    let name = bridge_of(node);
    let services = services_table_of(&name);
    run(&format!("nft 'add table inet {name}; add table bridge {name}; add table inet {services}'"));
    name
}

fn tables() -> String {
    run("nft list tables")
}

#[tokio::test]
async fn leftover_rules_of_ended_test_nodes_are_removed() {
    let host = Host::new().await;
    host.enter();
    let ended = rules_of("test-1-ended");
    network::remove("test-1-ended");
    assert_eq!(tables(), "", "{ended}");

    let (killed, stopped, runs) = (rules_of("test-1-killed"), rules_of("stopped"), rules_of("runs"));
    run("nft add table inet theirs");
    ip(&format!("link add {stopped} type bridge"));
    let _kubelet = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&runs).unwrap()).unwrap();
    network::sweep(|_| false);
    let left = tables();
    for name in [&killed, &services_table_of(&killed)] {
        assert!(!left.contains(name), "{name}: {left}");
    }
    for name in [&stopped, &services_table_of(&stopped), &runs, &services_table_of(&runs), "theirs"] {
        assert!(left.contains(name), "{name}: {left}");
    }
}
