//! Host ports lead to pods, from every place that sends requests to them.

use std::net::{TcpListener, TcpStream};
use std::path::Path;

use kubelet::network::nft::{Error, Protocol, Rules};
use tests::{DEADLINE, wait_until};

use super::stage::{
    At, BRIDGE, Stage, UNANSWERED_AFTER, WHO, bracketed, ensure, gateway, ip, node, of, port, run, set,
};

#[tokio::test]
async fn host_port_is_forwarded_from_all_clients() {
    let stage = Stage::new().await;
    let ports = [port("0.0.0.0", 8080, At::PodA), port("::", 8080, At::PodA)];
    assert!(ensure(&node(), &ports).table);
    // Whether nftables sees bridged packets depends on whether the `br_netfilter` module is loaded.
    for bridged in ["0", "1"] {
        show_bridged(bridged);
        for version in [4, 6] {
            let at = |address: &str| format!("{}:8080", bracketed(address));
            let host = at(At::Node.address(version));
            stage.assert_received(At::Outside, &host, At::PodA, At::Outside.address(version));
            stage.assert_received(At::Node, &host, At::PodA, At::Node.address(version));
            // The answer has to return by the path of the request.
            stage.assert_received(At::PodB, &host, At::PodA, gateway(version));
            stage.assert_received(At::PodB, &at(gateway(version)), At::PodA, gateway(version));
            stage.assert_received(At::PodA, &host, At::PodA, gateway(version));
        }
        stage.assert_received(At::Node, "127.0.0.1:8080", At::PodA, gateway(4));
        stage.assert_received(At::Node, "127.1.2.3:8080", At::PodA, gateway(4));
        // The connection is refused, not dropped, so that a client of `localhost` tries the other address at once.
        stage.assert_refused(At::Node, "[::1]:8080");
    }
    // Packets that the host forwards to the same port of another address are not changed.
    stage.assert_not_received(At::PodA, "192.0.2.2:8080");
    stage.assert_not_received(At::Outside, "10.88.1.3:8080");
}

#[tokio::test]
async fn host_port_at_one_address_takes_precedence_there_only() {
    let stage = Stage::new().await;
    let ports = [
        port("127.0.0.1", 8081, At::PodA),
        port("192.0.2.1", 8082, At::PodA),
        port("0.0.0.0", 8082, At::PodB),
        port("fd99::1", 8083, At::PodB),
    ];
    ensure(&node(), &ports);
    stage.assert_received(At::Node, "127.0.0.1:8081", At::PodA, gateway(4));
    stage.assert_not_received(At::Outside, "192.0.2.1:8081");
    stage.assert_received(At::Outside, "192.0.2.1:8082", At::PodA, "192.0.2.2");
    stage.assert_received(At::PodB, "10.88.1.1:8082", At::PodB, gateway(4));
    stage.assert_received(At::Outside, "[fd99::1]:8083", At::PodB, "fd99::2");
    stage.assert_not_received(At::PodA, "[fd88:0:0:1::1]:8083");
}

#[tokio::test]
async fn host_port_redirects_of_other_programs_keep_the_client_address() {
    let stage = Stage::new().await;
    ensure(&node(), &[port("0.0.0.0", 8080, At::PodB), port("127.0.0.1", 80, At::PodB)]);
    // A Service as kube-proxy implements it. Without the rules of the bridge the answer finds no way back.
    if show_bridged("1") {
        run("nft add table ip services");
        run("nft 'add chain ip services come { type nat hook prerouting priority -100; }'");
        run("nft add rule ip services come ip daddr 10.99.0.1 tcp dport 80 dnat to 10.88.1.3:80");
        stage.assert_received(At::PodA, "10.99.0.1:80", At::PodB, "10.88.1.2");
    }
    stage.assert_received(At::PodA, "192.0.2.1:8080", At::PodB, gateway(4));
}

/// Makes the kernel pass bridged packets to nftables, or not. Returns whether the kernel supports that.
fn show_bridged(whether: &str) -> bool {
    let switches = ["iptables", "ip6tables"].map(|name| format!("bridge/bridge-nf-call-{name}"));
    let there = switches.iter().all(|switch| Path::new("/proc/sys/net").join(switch).exists());
    if there {
        switches.iter().for_each(|switch| set(switch, whether));
    }
    there
}

#[tokio::test]
async fn host_ports_of_two_protocols_are_forwarded_to_different_pods() {
    let stage = Stage::new().await;
    let udp = |at| of(Protocol::Udp, at, 53, At::PodA);
    ensure(&node(), &[udp("0.0.0.0"), udp("::"), port("0.0.0.0", 53, At::PodB)]);
    assert_eq!(stage.query_udp(At::Outside, "192.0.2.1:53"), Ok("PodA sees 192.0.2.2".to_owned()));
    assert_eq!(stage.query_udp(At::PodB, "192.0.2.1:53"), Ok("PodA sees 10.88.1.1".to_owned()));
    assert_eq!(stage.query_udp(At::PodA, "192.0.2.1:53"), Ok("PodA sees 10.88.1.1".to_owned()));
    assert_eq!(stage.query_udp(At::Node, "127.0.0.1:53"), Ok("PodA sees 10.88.1.1".to_owned()));
    assert_eq!(stage.query_udp(At::Outside, "[fd99::1]:53"), Ok("PodA sees fd99::2".to_owned()));
    stage.assert_received(At::Outside, "192.0.2.1:53", At::PodB, "192.0.2.2");
}

#[tokio::test]
async fn busy_udp_client_follows_host_port_changes() {
    let stage = Stage::new().await;
    let mut rules = Rules::open().unwrap();
    let at = |to| [of(Protocol::Udp, "0.0.0.0", 53, to), of(Protocol::Udp, "::", 53, to)];
    rules.ensure(&node(), &[].into(), &[].into()).unwrap();
    for node in ["192.0.2.1:53", "[fd99::1]:53"] {
        let client = stage.udp_client(At::Outside, node);
        let receives = async |from: &str| {
            let look = async || match client() {
                Ok(response) if response.starts_with(from) => Ok(()),
                other => Err(format!("{node}: {other:?}")),
            };
            wait_until(DEADLINE, look).await.unwrap();
        };
        let refused = client().unwrap_err();
        rules.add(BRIDGE, &at(At::PodA)).unwrap();
        receives("PodA").await;
        rules.add(BRIDGE, &at(At::PodB)).unwrap();
        receives("PodB").await;
        rules.take(BRIDGE, &at(At::PodB)).unwrap();
        assert_eq!(client().unwrap_err(), refused, "the port is no longer forwarded");
    }
}

#[tokio::test]
async fn host_ports_follow_their_pods() {
    let stage = Stage::new().await;
    let mut rules = Rules::open().unwrap();
    let (one, moved) = (port("0.0.0.0", 8080, At::PodA), port("0.0.0.0", 8080, At::PodB));
    let (other, sixth) = (port("127.0.0.1", 8081, At::PodB), port("::1", 8081, At::PodB));
    let gone = rules.add(BRIDGE, &[one]).unwrap_err();
    assert!(matches!(gone, Error::Gone { .. }), "{gone}");
    rules.ensure(&node(), &[].into(), &[].into()).unwrap();
    assert!(rules.ports(BRIDGE).unwrap().is_empty());

    rules.add(BRIDGE, &[one, other]).unwrap();
    rules.add(BRIDGE, &[other, one, sixth]).unwrap();
    assert_eq!(rules.ports(BRIDGE).unwrap(), [one, other, sixth].into());
    stage.assert_received(At::Outside, "192.0.2.1:8080", At::PodA, "192.0.2.2");
    rules.add(BRIDGE, &[moved]).unwrap();
    stage.assert_received(At::Outside, "192.0.2.1:8080", At::PodB, "192.0.2.2");

    // The pod that had the port before ends after its successor starts.
    rules.take(BRIDGE, &[one, other, sixth]).unwrap();
    rules.take(BRIDGE, &[other]).unwrap();
    assert_eq!(rules.ports(BRIDGE).unwrap(), [moved].into());
    rules.take(BRIDGE, &[moved]).unwrap();
    stage.assert_not_received(At::Outside, "192.0.2.1:8080");

    let many: Vec<_> = (1000..4000).map(|number| port("0.0.0.0", number, At::PodA)).collect();
    rules.add(BRIDGE, &many).unwrap();
    assert_eq!(rules.ports(BRIDGE).unwrap().len(), many.len());
    stage.assert_received(At::Outside, "192.0.2.1:3999", At::PodA, "192.0.2.2");
    let few = rules.ensure(&node(), &[moved].into(), &[].into()).unwrap();
    assert_eq!((few.table, few.ports.remove.len(), few.ports.add), (false, many.len(), vec![moved]));
    stage.assert_received(At::Outside, "192.0.2.1:8080", At::PodB, "192.0.2.2");

    // The listed ruleset is readable for administrators.
    let printed = run("nft list ruleset");
    assert!(printed.contains("tcp . 8080 : 10.88.1.3 . 80"), "{printed}");
}

#[tokio::test]
async fn pods_cannot_reach_services_on_the_loopback_of_the_host() {
    let stage = Stage::new().await;
    let _listener = TcpListener::bind("127.0.0.1:81").unwrap();
    stage.at(At::PodA, || {
        ip("addr flush dev lo");
        set("ipv4/conf/eth0/route_localnet", "1");
        ip("route add 127.0.0.1 via 10.88.1.1");
    });
    let reaches = || {
        stage.at(At::PodA, || {
            TcpStream::connect_timeout(&"127.0.0.1:81".parse().unwrap(), UNANSWERED_AFTER).is_ok()
        })
    };
    assert!(reaches(), "the test proves nothing unless the way is open without rules");
    ensure(&node(), &[port("127.0.0.1", 8080, At::PodB)]);
    assert!(!reaches());
    // The result does not depend on whether conntrack tracks the packets.
    run("nft add table ip loose");
    run("nft 'add chain ip loose each { type filter hook prerouting priority -300; }'");
    run("nft add rule ip loose each notrack");
    assert!(!reaches());
    run("nft delete table ip loose");
    // Ports that only the host itself may reach do not lead from pods to pods.
    stage.assert_not_received(At::PodA, "127.0.0.1:8080");
    stage.assert_received(At::Node, "127.0.0.1:8080", At::PodB, gateway(4));
    stage.assert_received(At::Node, &format!("{}:{WHO}", At::PodB.address(4)), At::PodB, gateway(4));
}
