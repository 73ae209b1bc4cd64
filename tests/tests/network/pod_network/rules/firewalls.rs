//! The kubelet's rules next to firewalls that drop forwarded packets and were set up by their own programs.

use std::fs;

use kubelet::network::nft::{Port, Rules, legacy};

use super::stage::{At, BRIDGE, Stage, bracketed, ensure, node, port, run};

/// Asserts that pods reach other machines and are reached, in both IP versions.
fn assert_open(stage: &Stage) {
    for version in [4, 6] {
        let outside = format!("{}:80", bracketed(At::Outside.address(version)));
        stage.assert_received(At::PodA, &outside, At::Outside, At::Node.address(version));
        let host = format!("{}:8080", bracketed(At::Node.address(version)));
        stage.assert_received(At::Outside, &host, At::PodA, At::Outside.address(version));
    }
}

fn assert_closed(stage: &Stage) {
    for version in [4, 6] {
        stage.assert_not_received(At::PodA, &format!("{}:80", bracketed(At::Outside.address(version))));
        stage.assert_not_received(At::Outside, &format!("{}:80", bracketed(At::PodA.address(version))));
    }
}

fn ports() -> [Port; 2] {
    ["0.0.0.0", "::"].map(|at| port(at, 8080, At::PodA))
}

#[tokio::test]
async fn iptables_firewall_accepts_pod_traffic_and_stays_printable() {
    let stage = Stage::new().await;
    for iptables in ["iptables", "ip6tables"] {
        run(&format!("{iptables} -P FORWARD DROP"));
        run(&format!("{iptables} -A FORWARD -p tcp --dport 4444 -j DROP"));
    }
    assert_closed(&stage);
    let repairs = ensure(&node(), &ports());
    assert_eq!(repairs.opened, ["ip filter FORWARD", "ip6 filter FORWARD"]);
    assert_open(&stage);

    let printed = run("iptables -S FORWARD");
    let lines: Vec<&str> = printed.lines().collect();
    let expected = [
        "-P FORWARD DROP".to_owned(),
        "-A FORWARD -p tcp -m tcp --dport 4444 -j DROP".to_owned(),
        format!("-A FORWARD -i {BRIDGE} -m comment --comment \"{BRIDGE}: from pods\" -j ACCEPT"),
        format!("-A FORWARD -o {BRIDGE} -m comment --comment \"{BRIDGE}: to pods\" -j ACCEPT"),
        format!(
            "-A FORWARD -m mark --mark 0x1000/0x1000 -m comment --comment \"{BRIDGE}: to Services\" -j ACCEPT"
        ),
    ];
    assert_eq!(lines, expected);
    let saved = run("iptables-save");
    assert!(saved.contains("from pods") && !saved.contains("incompatible"), "{saved}");
    run("iptables -L FORWARD -n -v");
    assert!(ensure(&node(), &ports()).is_nothing());

    // The kubelet recognizes its rules after `iptables-save` and `iptables-restore`.
    run("iptables-save | iptables-restore");
    assert!(ensure(&node(), &ports()).is_nothing(), "{}", run("iptables -S FORWARD"));
    // Another program deletes one of the rules.
    run(&format!("iptables -D FORWARD -o {BRIDGE} -m comment --comment '{BRIDGE}: to pods' -j ACCEPT"));
    assert_eq!(ensure(&node(), &ports()).opened, ["ip filter FORWARD"]);
    assert_eq!(run("iptables -S FORWARD").lines().collect::<Vec<_>>(), expected);

    // A rejection by an administrator stays in force, also for pods.
    run(&format!("iptables -I FORWARD -o {BRIDGE} -p tcp --dport 80 -j REJECT"));
    stage.assert_not_received(At::Outside, "192.0.2.1:8080");
    run("iptables -D FORWARD 1");
    assert_open(&stage);

    run("iptables -P FORWARD ACCEPT");
    ensure(&node(), &ports());
    assert!(!run("iptables -S FORWARD").contains(BRIDGE));
    assert!(run("ip6tables -S FORWARD").contains(BRIDGE));
    Rules::open().unwrap().remove(BRIDGE).unwrap();
    assert!(!run("ip6tables -S FORWARD").contains(BRIDGE));
}

#[tokio::test]
async fn nftables_firewall_accepts_pod_traffic() {
    let stage = Stage::new().await;
    run("nft add table inet firewall");
    run("nft 'add chain inet firewall pass { type filter hook forward priority 0; policy drop; }'");
    run("nft 'add chain inet firewall come { type filter hook input priority 0; policy accept; }'");
    assert_closed(&stage);
    assert_eq!(ensure(&node(), &ports()).opened, ["inet firewall pass"]);
    assert_open(&stage);
    let printed = run("nft list chain inet firewall pass");
    assert!(printed.contains(&format!("iifname \"{BRIDGE}\"")), "{printed}");
    assert!(printed.contains(&format!("comment \"{BRIDGE}: to pods\"")), "{printed}");
    assert!(!run("nft list chain inet firewall come").contains(BRIDGE));
    assert!(ensure(&node(), &ports()).is_nothing());
    run("nft flush chain inet firewall pass");
    assert_eq!(ensure(&node(), &ports()).opened, ["inet firewall pass"]);
    assert_open(&stage);
}

#[tokio::test]
async fn legacy_iptables_firewall_accepts_pod_traffic() {
    let stage = Stage::new().await;
    // Kernels without the legacy tables need no rules in them.
    if fs::exists("/proc/net/ip_tables_names").unwrap() {
        for iptables in ["iptables-legacy", "ip6tables-legacy"] {
            run(&format!("{iptables} -P FORWARD DROP"));
        }
        assert_closed(&stage);
    }
    ensure(&node(), &ports());
    let opened = legacy::open(BRIDGE, true).unwrap();
    assert!(legacy::open(BRIDGE, true).unwrap().is_empty());
    assert_open(&stage);
    if fs::exists("/proc/net/ip_tables_names").unwrap() {
        assert_eq!(opened, ["FORWARD of iptables-legacy", "FORWARD of ip6tables-legacy"]);
        // Another program deletes one of the rules.
        run("iptables-legacy -D FORWARD 1");
        assert_eq!(legacy::open(BRIDGE, true).unwrap(), ["FORWARD of iptables-legacy"]);
        assert_open(&stage);
        assert_eq!(run("iptables-legacy -S FORWARD").matches(BRIDGE).count(), 5, "three rules with comments");
        legacy::close(BRIDGE).unwrap();
        assert_closed(&stage);
    }
    legacy::close(BRIDGE).unwrap();
}
