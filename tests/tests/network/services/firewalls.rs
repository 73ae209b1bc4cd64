//! Connections to Services beside firewalls that drop forwarded packets.

use kubelet::network::nft::services::Side;
use kubelet::network::nft::{Node, Protocol};

use super::rules::{Rules, stage};
use crate::pod_network::rules::stage::{At, Stage, bracketed, ensure, node, run};

/// Rules for a node port whose endpoint is on another machine.
fn node_port() -> Rules {
    let mut rules = Rules::default();
    for (version, any) in [(4, "0.0.0.0"), (6, "[::]")] {
        let target = rules.group("all", version, &[At::Outside], None);
        for side in Side::BOTH {
            rules.put(side, Protocol::Tcp, &format!("{any}:30080"), target, true);
        }
    }
    rules
}

/// Asserts that a client outside reaches the node port.
fn assert_served(stage: &Stage) {
    for version in [4, 6] {
        let own = At::Node.address(version);
        stage.assert_received(At::Outside, &format!("{}:30080", bracketed(own)), At::Outside, own);
    }
}

/// DNAT rules of another program, from port 4445 of the node to another machine.
fn redirect() {
    for (iptables, version) in [("iptables", 4), ("ip6tables", 6)] {
        let to = format!("{}:80", bracketed(At::Outside.address(version)));
        run(&format!("{iptables} -t nat -A PREROUTING -p tcp --dport 4445 -j DNAT --to-destination {to}"));
        run(&format!("{iptables} -t nat -A POSTROUTING -o out -j MASQUERADE"));
    }
}

fn redirected(version: u8) -> String {
    format!("{}:4445", bracketed(At::Node.address(version)))
}

#[tokio::test]
async fn iptables_with_policy_drop_accepts_only_dnat_to_services() {
    let (stage, mut table) = stage().await;
    node_port().apply(&mut table);
    redirect();
    for version in [4, 6] {
        stage.assert_received(At::Outside, &redirected(version), At::Outside, At::Node.address(version));
    }
    run("iptables -P FORWARD DROP");
    run("ip6tables -P FORWARD DROP");
    ensure(&node(), &[]);
    assert_served(&stage);
    for version in [4, 6] {
        stage.assert_not_received(At::Outside, &redirected(version));
    }
    // A node that serves no Services adds no rule for them.
    ensure(&Node { serves_services: false, ..node() }, &[]);
    let printed = run("iptables -S FORWARD");
    assert!(printed.contains("to pods") && !printed.contains("to Services"), "{printed}");
    for version in [4, 6] {
        stage.assert_not_received(At::Outside, &redirected(version));
    }
}

#[tokio::test]
async fn nftables_with_policy_drop_accepts_connections_to_services() {
    let (stage, mut table) = stage().await;
    node_port().apply(&mut table);
    run("nft add table inet firewall");
    run("nft 'add chain inet firewall pass { type filter hook forward priority 0; policy drop; }'");
    ensure(&node(), &[]);
    assert_served(&stage);
    let printed = run("nft list chain inet firewall pass");
    assert!(printed.contains("mark & 0x00001000") && printed.contains("to Services"), "{printed}");
}
