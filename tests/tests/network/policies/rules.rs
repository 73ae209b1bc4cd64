//! The packet rules of NetworkPolicies, between network namespaces of the test.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use kubelet::network::nft::policies::{
    Allow, Chain, ChainRule, Direction, IsolatedPod, Peers, PolicyId, PolicyNode, PolicyRules, PolicyTable,
    Ports,
};
use kubelet::network::nft::{POD_PORT_PREFIX, Protocol};
use tests::{DEADLINE, Host, wait_until};

use crate::pod_network::rules::stage::{
    At, BRIDGE, Stage, UNANSWERED_AFTER, WHO, add, bracketed, ensure, far_pod, gateway, ip, node, run, set,
};
use crate::services::rules as services;

const TABLE: &str = "coracle-policy-1a2b3c";
const VERSIONS: [u8; 2] = [4, 6];

/// Peers and ports of a rule.
#[derive(Clone, Default)]
struct Rule {
    /// `None` for all peers.
    pods: Option<Vec<At>>,
    blocks: Vec<&'static str>,
    ports: Option<(Protocol, u16, u16)>,
}

fn from(pods: &[At]) -> Rule {
    Rule { pods: Some(pods.to_vec()), ..Rule::default() }
}

fn addresses(of: At) -> Vec<IpAddr> {
    VERSIONS.map(|version| of.address(version).parse().unwrap()).to_vec()
}

fn mac_of(stage: &Stage, pod: At) -> [u8; 6] {
    // `/sys` shows the links of another namespace.
    let text = stage.at(pod, || run("ip -o link show eth0 | sed 's/.*ether //;s/ .*//'"));
    let bytes: Vec<u8> = text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    bytes.try_into().unwrap()
}

/// The rules of one isolated pod.
fn rules(stage: &Stage, pod: At, direction: Direction, all: &[Rule]) -> PolicyRules {
    let mut rules = PolicyRules::default();
    let mut chain = Chain { direction, rules: Vec::new() };
    for (number, rule) in all.iter().enumerate() {
        let id = PolicyId::of(&format!("{pod:?} {number}"));
        let peers = (rule.pods.is_some() || !rule.blocks.is_empty()).then_some(id);
        if peers.is_some() {
            let pods = rule.pods.iter().flatten().flat_map(|one| addresses(*one)).collect();
            let blocks = rule.blocks.iter().map(|cidr| cidr.parse().unwrap()).collect();
            rules.peers.insert(id, Peers { pods, blocks });
        }
        let ports = rule.ports.map(|(protocol, first, last)| Ports { protocol, first, last });
        chain
            .rules
            .push(ChainRule { policy: format!("test/{number}"), allow: Allow::Peers { peers, ports } });
    }
    let id = PolicyId::of("chain");
    rules.chains.insert(id, chain);
    let (ingress, egress) = match direction {
        Direction::Ingress => (Some(id), None),
        Direction::Egress => (None, Some(id)),
    };
    let mac = mac_of(stage, pod);
    rules.pods.push(IsolatedPod { port: pod.port(), mac, addresses: addresses(pod), ingress, egress });
    rules
}

fn policy_node() -> PolicyNode {
    let mac = run(&format!("ip -o link show {BRIDGE} | sed 's/.*ether //;s/ .*//'"));
    let bytes: Vec<u8> = mac.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    PolicyNode { name: TABLE.to_owned(), bridge_mac: bytes.try_into().unwrap() }
}

/// A stage with the rules of the pod network, and whether bridged frames pass the rules for IP.
async fn stage(filters_bridged: bool) -> (Stage, PolicyTable) {
    let stage = Stage::new().await;
    ensure(&node(), &[]);
    set_bridge_filter(filters_bridged);
    (stage, PolicyTable::open().unwrap())
}

/// Sets whether frames in a bridge pass the rules for IP.
fn set_bridge_filter(is_on: bool) {
    let value = if is_on { "1" } else { "0" };
    set("bridge/bridge-nf-call-iptables", value);
    set("bridge/bridge-nf-call-ip6tables", value);
}

fn to(who: At, version: u8) -> String {
    format!("{}:{WHO}", bracketed(who.address(version)))
}

/// Whether a client gets an answer over UDP.
fn gets_udp(stage: &Stage, who: At, to: &str) -> bool {
    let any = if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = stage.at(who, || UdpSocket::bind(any).unwrap());
    asks(&socket, to)
}

fn asks(socket: &UdpSocket, to: &str) -> bool {
    socket.set_read_timeout(Some(UNANSWERED_AFTER)).unwrap();
    socket.send_to(b"?", to).is_ok() && socket.recv(&mut [0; 100]).is_ok()
}

#[tokio::test]
async fn an_isolated_pod_gets_connections_of_its_peers_and_of_its_node_only() {
    for filters_bridged in [true, false] {
        let (stage, mut table) = stage(filters_bridged).await;
        let node = policy_node();
        assert!(table.apply(&node, &rules(&stage, At::PodB, Direction::Ingress, &[])).unwrap().is_new);
        for version in VERSIONS {
            let (b, a) = (to(At::PodB, version), to(At::PodA, version));
            stage.assert_not_received(At::PodA, &b);
            stage.assert_not_received(At::Outside, &b);
            assert!(!gets_udp(&stage, At::PodA, &b));
            stage.assert_received(At::Node, &b, At::PodB, gateway(version));
            stage.assert_received(At::PodB, &a, At::PodA, At::PodB.address(version));
            assert!(gets_udp(&stage, At::PodB, &a), "replies reach the pod");
        }
        let allow = rules(&stage, At::PodB, Direction::Ingress, &[from(&[At::PodA])]);
        table.apply(&node, &allow).unwrap();
        for version in VERSIONS {
            let b = to(At::PodB, version);
            stage.assert_received(At::PodA, &b, At::PodB, At::PodA.address(version));
            stage.assert_not_received(At::Outside, &b);
        }
        table.apply(&node, &PolicyRules::default()).unwrap();
        stage.assert_received(At::Outside, &to(At::PodB, 4), At::PodB, At::Outside.address(4));
        assert!(!run("nft list tables").contains(TABLE), "without isolated pods there are no tables");
    }
}

#[tokio::test]
async fn blocks_and_ports_restrict_connections() {
    let (stage, mut table) = stage(false).await;
    let node = policy_node();
    let with = |rule: Rule| rules(&stage, At::PodB, Direction::Ingress, &[rule]);
    let block = |blocks: &[&'static str]| Rule { blocks: blocks.to_vec(), ..Rule::default() };
    let ports = |first, last| Rule { ports: Some((Protocol::Tcp, first, last)), ..Rule::default() };
    let b = to(At::PodB, 4);
    for (rule, a, outside) in [
        (block(&["192.0.2.0/24"]), false, true),
        (block(&["0.0.0.0/1", "192.0.0.0/25"]), true, false),
        (ports(80, 80), true, true),
        (ports(79, 90), true, true),
        (ports(81, 90), false, false),
        (Rule { ports: Some((Protocol::Udp, 0, u16::MAX)), ..Rule::default() }, false, false),
        (Rule { pods: Some(vec![At::PodA]), ..ports(80, 80) }, true, false),
    ] {
        table.apply(&node, &with(rule)).unwrap();
        for (who, expected) in [(At::PodA, a), (At::Outside, outside)] {
            match expected {
                true => stage.assert_received(who, &b, At::PodB, who.address(4)),
                false => stage.assert_not_received(who, &b),
            }
        }
    }
    table.apply(&node, &with(ports(80, 80))).unwrap();
    assert!(!gets_udp(&stage, At::PodA, &b), "the port is for TCP only");
}

#[tokio::test]
async fn egress_rules_see_the_endpoint_of_a_service() {
    for filters_bridged in [true, false] {
        let (stage, mut services) = services::stage().await;
        let mut table = PolicyTable::open().unwrap();
        set_bridge_filter(filters_bridged);
        services::Rules::cluster(&[At::PodB], None).apply_with(&mut services, filters_bridged);
        let node = policy_node();
        for (rule, expected) in [(from(&[At::PodB]), true), (from(&[At::Outside]), false)] {
            table.apply(&node, &rules(&stage, At::PodA, Direction::Egress, &[rule])).unwrap();
            for version in VERSIONS {
                for at in [services::cluster_ip(version), to(At::PodB, version)] {
                    let answer = stage.send_request(At::PodA, &at, UNANSWERED_AFTER);
                    assert_eq!(answer.is_ok(), expected, "{at}: {answer:?}");
                }
                let far = format!("{}:{WHO}", bracketed(far_pod(version)));
                stage.assert_not_received(At::PodA, &far);
                let own_node = SocketAddr::new(gateway(version).parse().unwrap(), 0);
                let server = TcpListener::bind(own_node).unwrap();
                let own_node = server.local_addr().unwrap();
                let connected = stage.at(At::PodA, || TcpStream::connect_timeout(&own_node, DEADLINE));
                assert!(connected.is_ok(), "the own node stays reachable: {connected:?}");
            }
        }
        // A pod reaches itself through a Service, whatever the policies are.
        services::Rules::cluster(&[At::PodA], None).apply_with(&mut services, filters_bridged);
        table.apply(&node, &rules(&stage, At::PodA, Direction::Egress, &[])).unwrap();
        assert!(stage.send_request(At::PodA, &services::cluster_ip(4), UNANSWERED_AFTER).is_ok());
    }
}

#[tokio::test]
async fn ingress_rules_apply_to_connections_through_a_service() {
    for filters_bridged in [true, false] {
        let (stage, mut services) = services::stage().await;
        let mut table = PolicyTable::open().unwrap();
        set_bridge_filter(filters_bridged);
        services::Rules::cluster(&[At::PodB], None).apply_with(&mut services, filters_bridged);
        for (rule, expected) in [(from(&[At::PodA]), true), (from(&[At::Outside]), false)] {
            let rules = rules(&stage, At::PodB, Direction::Ingress, &[rule]);
            table.apply(&policy_node(), &rules).unwrap();
            for version in VERSIONS {
                let at = services::cluster_ip(version);
                let answer = stage.send_request(At::PodA, &at, UNANSWERED_AFTER);
                assert_eq!(answer.is_ok(), expected, "{at}: {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn established_connections_continue_and_new_ones_are_dropped() {
    let (stage, mut table) = stage(false).await;
    let b = to(At::PodB, 4);
    let socket = stage.at(At::Outside, || UdpSocket::bind("0.0.0.0:0").unwrap());
    assert!(asks(&socket, &b));
    table.apply(&policy_node(), &rules(&stage, At::PodB, Direction::Ingress, &[])).unwrap();
    assert!(asks(&socket, &b), "the connection was established before the policy");
    assert!(!gets_udp(&stage, At::Outside, &b));
    stage.assert_not_received(At::Outside, &b);
}

#[tokio::test]
async fn multicast_and_link_local_packets_do_not_bypass_policies() {
    let (stage, mut table) = stage(false).await;
    let receiver = stage.at(At::PodB, || UdpSocket::bind("[::]:5000").unwrap());
    let sender = stage.at(At::PodA, || UdpSocket::bind("[::]:0").unwrap());
    let index = stage.at(At::PodA, || run("ip -o link show eth0 | sed 's/:.*//'"));
    let link_local =
        stage.at(At::PodB, || run("ip -6 -o addr show dev eth0 scope link | sed 's/.*inet6 //;s/\\/.*//'"));
    let broadcast = "[::ffff:10.88.1.255]:5000".to_owned();
    let arrives = |to: &str| {
        let scoped = to.replace('%', &format!("%{}", index.trim()));
        rustix::net::sockopt::set_socket_broadcast(&sender, true).unwrap();
        receiver.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        sender.send_to(b"?", scoped).is_ok() && receiver.recv(&mut [0; 10]).is_ok()
    };
    let all_nodes = "[ff02::1%]:5000".to_owned();
    let link_local = format!("[{}%]:5000", link_local.trim());
    for to in [&all_nodes, &link_local, &broadcast] {
        // The kernel first makes sure that no other machine has the address.
        let look = async || if arrives(to) { Ok(()) } else { Err(format!("nothing arrives at {to}")) };
        wait_until(DEADLINE, look).await.unwrap();
    }
    table.apply(&policy_node(), &rules(&stage, At::PodB, Direction::Ingress, &[])).unwrap();
    // Earlier packets may still arrive.
    while receiver.recv(&mut [0; 10]).is_ok() {}
    for to in [&all_nodes, &link_local, &broadcast] {
        assert!(!arrives(to), "{to}");
    }
}

#[tokio::test]
async fn changed_rules_are_restored_and_unchanged_ones_stay() {
    let (stage, mut table) = stage(false).await;
    let node = policy_node();
    let wanted = rules(&stage, At::PodB, Direction::Ingress, &[from(&[At::PodA])]);
    table.apply(&node, &wanted).unwrap();
    let applied = table.apply(&node, &wanted).unwrap();
    assert!(!applied.is_changed && !applied.was_changed, "{applied:?}");
    let applied = PolicyTable::open().unwrap().apply(&node, &wanted).unwrap();
    assert!(!applied.is_changed, "a restarted kubelet changes nothing: {applied:?}");
    for change in [
        format!("nft delete table inet {TABLE}"),
        format!("nft delete table bridge {TABLE}"),
        format!("nft flush chain inet {TABLE} forward"),
        format!("nft flush set bridge {TABLE} hardware"),
        format!("nft add rule inet {TABLE} forward accept"),
    ] {
        run(&change);
        let applied = table.apply(&node, &wanted).unwrap();
        assert!(applied.was_changed && applied.is_changed, "{change}: {applied:?}");
        stage.assert_not_received(At::Outside, &to(At::PodB, 4));
        stage.assert_received(At::PodA, &to(At::PodB, 4), At::PodB, At::PodA.address(4));
    }
    let more = rules(&stage, At::PodB, Direction::Ingress, &[from(&[At::PodA, At::Outside])]);
    let applied = table.apply(&node, &more).unwrap();
    assert!(applied.is_changed && !applied.is_new, "a new peer changes elements only: {applied:?}");
    stage.assert_received(At::Outside, &to(At::PodB, 4), At::PodB, At::Outside.address(4));
}

#[tokio::test]
async fn pods_of_another_kubelet_on_the_machine_reach_an_isolated_pod_if_its_rules_allow_it() {
    let (stage, mut table) = stage(false).await;
    let (other, bridge) = (Host::new().await, "coracle-ffffff");
    let port = format!("{POD_PORT_PREFIX}other");
    ip(&format!("link add {bridge} type bridge forward_delay 0"));
    add("10.88.3.1", 24, bridge);
    add("fd88:0:0:3::1", 64, bridge);
    ip(&format!("link set {bridge} up"));
    other.link(&port, "eth0");
    ip(&format!("link set {port} master {bridge}"));
    other.at(|| {
        for (address, length, gateway) in
            [("10.88.3.2", 24, "10.88.3.1"), ("fd88:0:0:3::2", 64, "fd88:0:0:3::1")]
        {
            add(address, length, "eth0");
            ip(&format!("route add default via {gateway}"));
        }
    });
    let connects = |version| {
        let to: SocketAddr = to(At::PodB, version).parse().unwrap();
        other.at(|| TcpStream::connect_timeout(&to, UNANSWERED_AFTER).is_ok())
    };
    for version in VERSIONS {
        let look = async || if connects(version) { Ok(()) } else { Err("not connected".to_owned()) };
        wait_until(DEADLINE, look).await.unwrap();
    }
    let allow = Rule { blocks: vec!["10.88.3.0/24", "fd88:0:0:3::/64"], ..Rule::default() };
    for (rules_of_pod, expected) in [(vec![], false), (vec![allow], true)] {
        table.apply(&policy_node(), &rules(&stage, At::PodB, Direction::Ingress, &rules_of_pod)).unwrap();
        for version in VERSIONS {
            assert_eq!(connects(version), expected, "IPv{version}");
        }
    }
}

#[tokio::test]
async fn frames_to_an_unknown_hardware_address_do_not_bypass_policies() {
    let (stage, mut table) = stage(false).await;
    let receives = || {
        let receiver = stage.at(At::PodB, || UdpSocket::bind("0.0.0.0:5001").unwrap());
        receiver.set_read_timeout(Some(UNANSWERED_AFTER)).unwrap();
        let sender = stage.at(At::PodA, || UdpSocket::bind("0.0.0.0:0").unwrap());
        sender.send_to(b"?", (At::PodB.address(4), 5001)).unwrap();
        receiver.recv(&mut [0; 10]).is_ok()
    };
    // The pod receives frames to another hardware address than its own, which a pod may arrange with its client.
    stage.at(At::PodA, || {
        run(&format!("ip neigh replace {} lladdr 02:00:00:00:99:99 dev eth0", At::PodB.address(4)))
    });
    let mac = mac_of(&stage, At::PodB);
    stage.at(At::PodB, || run("ip link set eth0 address 02:00:00:00:99:99"));
    assert!(receives(), "the bridge floods the frame");
    let mut wanted = rules(&stage, At::PodB, Direction::Ingress, &[]);
    wanted.pods[0].mac = mac;
    table.apply(&policy_node(), &wanted).unwrap();
    assert!(!receives());
}
