//! Another program removes parts of the pod network, or holds what the kubelet needs; foreign devices and routes are not touched.

use super::stage::{At, Stage};
use crate::pod_network::rules::stage::{ip, run};

#[tokio::test]
async fn removed_routes_and_devices_are_restored_and_reported() {
    let mut stage = Stage::new().await;
    stage.settle_all();
    let mut connection = stage.connect(At::PodA, At::PodC, 4);
    let name = stage.at(At::A, || run("ip -o link show type vxlan | grep -o 'coracle4-[0-9a-f]*' | head -1"));
    let name = name.trim();
    for (harm, named) in [
        ("ip route del 10.244.2.0/24".to_owned(), "route to 10.244.2.0/24, the pods of node node-b,"),
        ("ip -6 route del fd00:3::/64".to_owned(), "route to fd00:3::/64, the pods of node node-c,"),
        (format!("ip link del {name}"), "tunnel"),
        (format!("ip link set {name} down"), "route to 10.244.3.0/24, the pods of node node-c,"),
    ] {
        stage.at(At::A, || run(&harm));
        let result = stage.sync(At::A);
        assert!(result.repaired.iter().any(|text| text.contains(named)), "{harm}: {result:?}");
        stage.assert_all_connected();
        connection.assert_alive();
    }
    for harm in [
        format!("ip addr flush dev {name}"),
        format!("ip neigh flush nud permanent dev {name}"),
        format!(
            "bridge fdb show dev {name} | while read mac rest; do bridge fdb del $mac dev {name} dst 198.51.100.3; done"
        ),
        format!("ip link set {name} mtu 1000 address 02:00:00:00:00:01"),
        format!("ip link del {name}; ip link add {name} type vxlan id 9 dstport 8472 nolearning"),
    ] {
        stage.at(At::A, || run(&harm));
        assert_eq!(stage.sync(At::A).failed, None, "{harm}");
        stage.assert_all_connected();
        connection.assert_alive();
    }
}

#[tokio::test]
async fn a_lost_route_is_reported_and_restored() {
    let mut stage = Stage::new().await;
    stage.settle_all();
    stage.at(At::A, || ip("link set eth0 down"));
    let result = stage.sync(At::A);
    assert!(
        result
            .warnings
            .iter()
            .any(|text| text.contains("node node-c") && text.contains("no route to the node")),
        "{result:?}"
    );
    stage.at(At::A, || {
        ip("link set eth0 up");
        ip("addr replace fd99::1/64 dev eth0 nodad");
        ip("route replace default via 192.0.2.254");
        ip("route replace default via fd99::fe");
    });
    stage.settle_all();
    stage.assert_all_connected();
}

#[tokio::test]
async fn routes_and_tunnels_of_other_programs_are_not_changed() {
    let mut stage = Stage::new().await;
    stage.at(At::A, || {
        ip("route add 10.244.2.0/24 via 192.0.2.254");
        ip("route add 10.99.0.0/16 via 192.0.2.254 proto 67 metric 5");
        ip("link add flannel.1 type vxlan id 1 dstport 4789 nolearning");
    });
    let result = stage.sync(At::A);
    assert_eq!(result.failed, None);
    let text = result.warnings.iter().next().unwrap();
    assert!(text.contains("route to 10.244.2.0/24, the pods of node node-b, via"), "{result:?}");
    let theirs = || run("ip route show | grep 192.0.2.254; ip link show flannel.1 | grep -c flannel");
    let before = stage.at(At::A, theirs);
    for route in
        ["10.244.2.0/24 via 192.0.2.254 dev eth0", "10.99.0.0/16 via 192.0.2.254 dev eth0 proto 67 metric 5"]
    {
        assert!(before.contains(route), "{before}");
    }
    stage.at(At::A, || ip("route del 10.244.2.0/24 metric 0"));
    stage.settle_all();
    stage.assert_all_connected();
    stage.remove(At::A);
    let left = stage.at(At::A, theirs);
    assert!(left.contains("10.99.0.0/16") && left.contains('1'), "{left}");
}

#[tokio::test]
async fn occupied_vxlan_port_is_reported_and_used_when_it_is_free() {
    let mut stage = Stage::new().await;
    stage.at(At::A, || ip("link add theirs type vxlan id 12626974 dstport 4789 nolearning"));
    let result = stage.sync(At::A);
    assert!(result.failed.is_some_and(|why| why.contains("theirs uses its UDP port 4789")));
    // The rest of the network is not affected.
    stage.sync(At::B);
    stage.assert_received(At::PodA, At::PodB, 4, &At::PodA.address(4));
    stage.at(At::A, || ip("link del theirs"));
    stage.settle_all();
    stage.assert_all_connected();
}
