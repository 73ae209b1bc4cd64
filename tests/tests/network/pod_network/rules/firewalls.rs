//! The kubelet's rules next to firewalls that drop forwarded packets and were set up by their own programs.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread;

use kubelet::network::nft::{Port, Rules, legacy};

use super::stage::{At, BRIDGE, Stage, UNANSWERED_AFTER, bracketed, ensure, gateway, node, port, run};

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

/// The address of a DNS server at the bridge in an IP version.
fn dns_server(version: u8) -> String {
    format!("{}:53", bracketed(gateway(version)))
}

/// Starts servers at the DNS port of the bridge that answer until the test ends.
fn serve_dns() {
    for server in [4, 6].map(dns_server) {
        let (tcp, udp) = (TcpListener::bind(&server).unwrap(), UdpSocket::bind(&server).unwrap());
        thread::spawn(move || {
            for stream in tcp.incoming() {
                let _ = stream.unwrap().write_all(b"answer");
            }
        });
        thread::spawn(move || {
            loop {
                let (_, client) = udp.recv_from(&mut [0; 10]).unwrap();
                let _ = udp.send_to(b"answer", client);
            }
        });
    }
}

/// Asserts whether a client gets answers from the DNS server, over both protocols.
fn assert_dns(stage: &Stage, who: At, version: u8, is_answered: bool) {
    let server = dns_server(version);
    let over_tcp = stage.send_request(who, &server, UNANSWERED_AFTER).is_ok();
    let over_udp = stage.at(who, || {
        let server: SocketAddr = server.parse().unwrap();
        let any = if version == 4 { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).unwrap();
        socket.set_read_timeout(Some(UNANSWERED_AFTER)).unwrap();
        socket.send_to(b"?", server).unwrap();
        socket.recv(&mut [0; 10]).is_ok()
    });
    assert_eq!((over_tcp, over_udp), (is_answered, is_answered), "{who:?} to {server}");
}

#[tokio::test]
async fn only_the_node_and_its_pods_reach_the_dns_server_of_the_bridge() {
    let stage = Stage::new().await;
    serve_dns();
    for is_guarded in [false, true] {
        for version in [4, 6] {
            assert_dns(&stage, At::Node, version, true);
            assert_dns(&stage, At::PodA, version, true);
            assert_dns(&stage, At::Outside, version, !is_guarded);
        }
        ensure(&node(), &[]);
    }
}

#[tokio::test]
async fn a_firewall_that_drops_packets_for_the_host_accepts_dns_queries_of_pods() {
    let stage = Stage::new().await;
    serve_dns();
    run("iptables -P INPUT DROP");
    run("iptables -A INPUT -p tcp --dport 4444 -j DROP");
    assert_dns(&stage, At::PodA, 4, false);
    assert_eq!(ensure(&node(), &[]).opened, ["ip filter INPUT (DNS)"]);
    assert_dns(&stage, At::PodA, 4, true);
    assert_dns(&stage, At::Outside, 4, false);
    let rule = |protocol: &str| {
        let to = gateway(4);
        format!(
            "-A INPUT -d {to}/32 -i {BRIDGE} -p {protocol} -m {protocol} --dport 53 -m comment --comment \"{BRIDGE}: DNS \
             over {protocol} at {to}\" -j ACCEPT"
        )
    };
    let first = ["-P INPUT DROP".to_owned(), "-A INPUT -p tcp -m tcp --dport 4444 -j DROP".to_owned()];
    let expected: Vec<String> = first.into_iter().chain(["udp", "tcp"].map(rule)).collect();
    assert_eq!(run("iptables -S INPUT").lines().collect::<Vec<_>>(), expected);
    run("iptables-save | iptables-restore");
    assert!(ensure(&node(), &[]).is_nothing(), "{}", run("iptables -S INPUT"));
    assert_dns(&stage, At::PodA, 4, true);
    run("iptables -P INPUT ACCEPT");
    ensure(&node(), &[]);
    assert!(!run("iptables -S INPUT").contains(BRIDGE));

    run("nft add table inet firewall");
    run("nft 'add chain inet firewall come { type filter hook input priority 0; policy drop; }'");
    // Without these, IPv6 neighbours do not find each other.
    run("nft add rule inet firewall come meta l4proto ipv6-icmp accept");
    assert_dns(&stage, At::PodA, 6, false);
    assert_eq!(ensure(&node(), &[]).opened, ["inet firewall come (DNS)"]);
    for version in [4, 6] {
        assert_dns(&stage, At::PodA, version, true);
    }
    Rules::open().unwrap().remove(BRIDGE).unwrap();
    assert!(!run("nft list ruleset").contains(BRIDGE));
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
    let opened = legacy::open(BRIDGE, true, &node().dns_servers).unwrap();
    assert!(legacy::open(BRIDGE, true, &node().dns_servers).unwrap().is_empty());
    assert_open(&stage);
    if fs::exists("/proc/net/ip_tables_names").unwrap() {
        assert_eq!(opened, ["FORWARD of iptables-legacy", "FORWARD of ip6tables-legacy"]);
        // Another program deletes one of the rules.
        run("iptables-legacy -D FORWARD 1");
        assert_eq!(legacy::open(BRIDGE, true, &node().dns_servers).unwrap(), ["FORWARD of iptables-legacy"]);
        assert_open(&stage);
        assert_eq!(run("iptables-legacy -S FORWARD").matches(BRIDGE).count(), 5, "three rules with comments");
        legacy::close(BRIDGE).unwrap();
        assert_closed(&stage);
    }
    legacy::close(BRIDGE).unwrap();
}
