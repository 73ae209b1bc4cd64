//! The kernel's notifications report when a machine's addresses change.

use kubelet::node::{self, Addresses};
use tests::host::ip;
use tests::{DEADLINE, Host};
use tokio::time::timeout;

#[tokio::test]
async fn address_changes_arrive_as_netlink_events() {
    let (machine, neighbour) = (Host::new().await, Host::new().await);
    machine.enter();
    neighbour.link("eth0", "eth0");
    neighbour.link("eth1", "eth0b");
    let mut addresses = Addresses::follow(None);
    let mut known = node::addresses(None);
    assert!(known.iter().all(std::net::IpAddr::is_loopback), "{known:?}");
    for (changes, expected) in [
        (vec!["addr add 192.0.2.7/24 dev eth0"], vec!["192.0.2.7"]),
        // The address moves: for a moment the machine has none.
        (vec!["addr del 192.0.2.7/24 dev eth0", "addr add 192.0.2.8/24 dev eth0"], vec!["192.0.2.8"]),
        // The address that a node reports may depend on a route alone.
        (vec!["addr add 198.51.100.7/24 dev eth1"], vec!["192.0.2.8"]),
        (vec!["route add 192.0.2.0/28 via 198.51.100.1"], vec!["198.51.100.7"]),
        (vec!["-6 addr add 2001:db8::7/64 dev eth0 nodad"], vec!["198.51.100.7", "2001:db8::7"]),
        // The kernel removes the routes of a link that goes down without a notification for each.
        (vec!["link set eth1 down"], vec!["192.0.2.8", "2001:db8::7"]),
    ] {
        changes.iter().for_each(|change| ip(change));
        let expected: Vec<std::net::IpAddr> = expected.iter().map(|ip| ip.parse().unwrap()).collect();
        while known != expected {
            timeout(DEADLINE, addresses.moved(&known)).await.expect(changes[0]);
            known = node::addresses(None);
        }
    }
    let mut given = Addresses::follow(Some(known[0]));
    ip("addr del 192.0.2.8/24 dev eth0");
    assert!(futures_util::FutureExt::now_or_never(given.moved(&[])).is_none(), "one that is given stays");
}
