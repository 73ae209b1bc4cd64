//! Connectivity of pods and nodes, and the source addresses that the servers see.

use std::time::Duration;

use kubelet::network::Member;
use kubelet::network::native::PeerRoutes;
use rustix::time::{ClockId, clock_gettime};

use super::stage::{A_LOOK, At, NODES, Stage, address, member, range};
use crate::pod_network::rules::stage::{UNANSWERED_AFTER, run};

#[tokio::test]
async fn pods_of_different_nodes_see_each_others_addresses() {
    let mut stage = Stage::new().await;
    assert!(stage.send_request(At::PodA, &At::PodB.address(4), UNANSWERED_AFTER).is_err());
    assert!(stage.send_request(At::PodA, &At::PodC.address(4), UNANSWERED_AFTER).is_err());
    stage.settle_all();
    stage.assert_all_connected();
    for version in [4, 6] {
        // A node's source address is its own on a segment, and the first of its pod CIDR in a tunnel: answers return the same way.
        stage.assert_received(At::A, At::PodB, version, &At::A.address(version));
        stage.assert_received(At::A, At::PodC, version, &range(0, version).network().to_string());
        stage.assert_received(At::C, At::PodA, version, &range(2, version).network().to_string());
        // Traffic from a pod to anything but pods has the node's source address.
        for node in [At::B, At::C, At::Outside] {
            stage.assert_received(At::PodA, node, version, &At::A.address(version));
        }
    }
}

#[tokio::test]
async fn peers_on_one_segment_get_only_a_route_and_a_resync_changes_nothing() {
    let mut stage = Stage::new().await;
    stage.members.pop();
    let result = stage.sync(At::A);
    assert_eq!(result.cluster, Some(vec![range(1, 4), range(1, 6)]));
    let look = || run("ip -d route show proto 67; ip -6 -d route show proto 67; ip -o link show type vxlan");
    let before = stage.at(At::A, look);
    assert!(before.contains("10.244.2.0/24 via 192.0.2.2 dev eth0"), "{before}");
    assert!(before.contains("fd00:2::/64 via fd99::2 dev eth0"), "{before}");
    assert!(!before.contains("coracle4"), "{before}");
    assert_eq!(stage.sync(At::A).repaired, [""; 0]);
    assert_eq!(stage.at(At::A, look), before);
}

#[tokio::test]
async fn pod_cidrs_of_other_nodes_are_published_before_their_routes_are_installed() {
    let stage = Stage::new().await;
    stage.at(At::A, || {
        let routes = || run("ip route show proto 67");
        let mut before = None;
        let others = [Member { is_older: false, ..member(At::B) }];
        let result = PeerRoutes::new("node-a").sync(&member(At::A).ranges, &others, |cluster| {
            before = Some((cluster.to_vec(), routes()));
        });
        assert_eq!((result.failed, before), (None, Some((result.cluster.unwrap(), String::new()))));
        assert!(routes().contains("10.244.2.0/24 via 192.0.2.2 dev eth0"));
    });
}

#[tokio::test]
async fn node_changes_interrupt_no_other_connection() {
    let mut stage = Stage::new().await;
    stage.settle_all();
    let mut connections: Vec<_> =
        [(At::PodA, At::PodB), (At::PodA, At::PodC)].iter().map(|(a, b)| stage.connect(*a, *b, 4)).collect();
    connections.push(stage.connect(At::PodC, At::PodB, 6));
    let mut alive = || connections.iter_mut().for_each(|connection| connection.assert_alive());
    alive();

    // First the node behind the router, then the one on the segment.
    for (node, v4, length, was) in
        [(At::C, "198.51.100.33", 24, "198.51.100.3"), (At::B, "192.0.2.22", 24, "192.0.2.2")]
    {
        stage.at(node, || {
            run(&format!("ip addr del {was}/{length} dev eth0; ip addr add {v4}/{length} dev eth0"));
            let router = if node == At::C { "198.51.100.254" } else { "192.0.2.254" };
            run(&format!("ip route replace default via {router}"));
        });
        stage.members[node.number()].addresses[0] = address(v4);
        stage.settle_all();
        stage.assert_all_connected();
        alive();
    }

    // Another node joins and leaves.
    let fourth = Member {
        name: "node-d".to_owned(),
        addresses: vec![address("192.0.2.4")],
        ranges: vec![range(3, 4)],
        ..member(At::A)
    };
    stage.members.push(fourth);
    stage.sync(At::A);
    let route = || run("ip route show 10.244.4.0/24");
    assert!(stage.at(At::A, route).contains("via 192.0.2.4"));
    stage.members.pop();
    stage.sync(At::A);
    assert_eq!(stage.at(At::A, route), "");
    alive();

    // The only node behind a router leaves, and the tunnel is removed.
    let third = stage.members.pop().unwrap();
    stage.sync(At::A);
    assert!(!stage.at(At::A, || run("ip -br link")).contains("coracle4-"));
    stage.members.push(third);
    stage.sync(At::A);
    stage.assert_all_connected();
    alive();
    for node in NODES {
        stage.remove(node);
        let left = stage.at(node, || run("ip route show proto 67; ip -6 route show proto 67; ip -br link"));
        assert!(!left.contains("coracle") && !left.contains("10.244") && !left.contains("fd00"), "{left}");
    }
}

#[tokio::test]
async fn routes_use_the_other_family_if_a_node_lacks_one() {
    let mut stage = Stage::new().await;
    for number in 0..3 {
        stage.members[number].addresses.remove(1);
    }
    stage.settle_all();
    stage.assert_all_connected();
    let mut stage = Stage::new().await;
    for number in 0..3 {
        stage.members[number].addresses.remove(0);
    }
    stage.settle_all();
    stage.assert_all_connected();
    let links = stage.at(At::A, || run("ip -br link"));
    assert!(links.contains("coracle6-") && !links.contains("coracle4-"), "{links}");
}

#[tokio::test]
async fn tunnel_mtu_follows_the_mtu_of_the_underlying_link() {
    let mut stage = Stage::new().await;
    stage.settle_all();
    let mtu = || run("ip -o link show type vxlan | grep -o 'mtu [0-9]*'").replace('\n', " ");
    assert_eq!(stage.at(At::A, mtu), "mtu 1450 mtu 1430 ");
    stage.at(At::A, || run("ip link set eth0 mtu 1400"));
    stage.sync(At::A);
    assert_eq!(stage.at(At::A, mtu), "mtu 1350 mtu 1330 ");
    stage.assert_all_connected();
}

/// The processor time of this thread, which other tests do not prolong.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

#[tokio::test]
async fn route_sync_of_a_thousand_nodes_is_fast() {
    let mut stage = Stage::new().await;
    let many = |number: u32| Member {
        name: format!("node-{number}"),
        is_older: false,
        port: 10250,
        // Half of the nodes are on the segment, and half are behind the router.
        addresses: vec![address(&match number % 2 {
            0 => format!("192.0.2.{}", 10 + number % 240),
            _ => format!("198.18.{}.{}", number / 250, number % 250),
        })],
        ranges: vec![format!("10.{}.{}.0/24", 100 + number / 250, number % 250).parse().unwrap()],
    };
    let mut members: Vec<Member> = (0..1000).map(many).collect();
    // The segment has only 240 addresses: the other nodes are elsewhere.
    members.sort_by_key(|member| member.addresses[0]);
    members.dedup_by_key(|member| member.addresses[0]);
    for (number, extra) in (members.len()..1000).enumerate() {
        let mut member = many(extra as u32);
        member.name = format!("extra-{number}");
        member.addresses = vec![address(&format!("198.19.{}.{}", number / 250, number % 250))];
        member.ranges = vec![format!("10.{}.{}.0/24", 120 + number / 250, number % 250).parse().unwrap()];
        members.push(member);
    }
    stage.members.extend(members);
    let begun = processor_time();
    let result = stage.sync(At::A);
    let first = processor_time() - begun;
    assert_eq!((result.failed, result.warnings), (None, [].into()));
    let begun = processor_time();
    assert_eq!(stage.sync(At::A).repaired, [""; 0]);
    let second = processor_time() - begun;
    println!("a thousand nodes: {first:?} to lay, {second:?} to look at");
    assert!(second < A_LOOK, "{second:?}");
    let routes = stage.at(At::A, || run("ip route show proto 67 | wc -l"));
    assert_eq!(routes.trim(), "1002");
    stage.settle_all();
    stage.assert_all_connected();
}
