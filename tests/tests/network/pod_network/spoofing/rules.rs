//! The anti-spoofing rules on a node with two pods, against raw frames.

use std::collections::BTreeSet;
use std::time::Duration;

use kubelet::network::nft::{PodPort, Rules, Watch};
use tests::{DEADLINE, wait_until};
use tokio::time::timeout;

use super::cases::{Others, forged, names, own};
use super::frames::{Behind, CONTROL, arp, ethernet, icmpv6, link_local};
use super::wire::Wire;
use crate::pod_network::rules::stage::{At, BRIDGE, Stage, WHO, add, bracketed, gateway, node, port, run};

/// A change of rules is reported within this time: all of it happens in one kernel.
const SILENCE: Duration = Duration::from_millis(300);

/// A stage with a packet socket in each pod.
struct Scene {
    stage: Stage,
    a: Wire,
    b: Wire,
}

impl Scene {
    async fn new() -> Self {
        let stage = Stage::new().await;
        let open = |pod: At| stage.at(pod, || Wire::open(pod.address(4)));
        let (a, b) = (open(At::PodA), open(At::PodB));
        Self { stage, a, b }
    }

    fn others(&self) -> Others<'_> {
        let v6 = [At::PodA.address(6), At::PodB.address(6), gateway(6)];
        Others { gateway: gateway(4), victim: &self.b, v6: Some(v6) }
    }

    /// The ports of both pods, with the addresses that they may send from.
    fn pods(&self) -> BTreeSet<PodPort> {
        let pod = |pod: At, wire: &Wire| PodPort {
            name: pod.port(),
            mac: wire.mac,
            addresses: [4, 6].map(|version| pod.address(version).parse().unwrap()).to_vec(),
        };
        [pod(At::PodA, &self.a), pod(At::PodB, &self.b)].into()
    }

    fn ensure(&self) -> kubelet::network::nft::Repairs {
        let ports = [port("0.0.0.0", 8080, At::PodA), port("::", 8080, At::PodA)].into();
        Rules::open().unwrap().ensure(&node(), &ports, &self.pods()).unwrap()
    }

    fn assert_guarded(&self) {
        let (forged, own) = (forged(&self.a, &self.others()), own(&self.a, &self.others()));
        assert_eq!(self.a.try_all(&self.b, &forged), [].into());
        assert_eq!(self.a.try_all(&self.b, &own), names(&own));
    }
}

#[tokio::test]
async fn packets_with_spoofed_addresses_are_dropped() {
    let scene = Scene::new().await;
    let forged = forged(&scene.a, &scene.others());
    // Without rules the victim receives all frames.
    assert_eq!(scene.a.try_all(&scene.b, &forged), names(&forged));
    assert!(scene.ensure().antispoof_table);
    scene.assert_guarded();
    assert!(scene.ensure().is_nothing());

    // Ports of unknown pods and of other nodes' pods are not checked.
    let mut pods = scene.pods();
    pods.retain(|pod| pod.name != At::PodA.port());
    Rules::open().unwrap().change_pods(BRIDGE, &pods, &[], &[]).unwrap();
    assert_eq!(scene.a.try_all(&scene.b, &forged), names(&forged));
}

#[tokio::test]
async fn anti_spoofing_rules_allow_pod_node_and_host_port_traffic() {
    let scene = Scene::new().await;
    scene.ensure();
    let stage = &scene.stage;
    for version in [4, 6] {
        let at = |who: At| format!("{}:{WHO}", bracketed(who.address(version)));
        stage.assert_received(At::PodA, &at(At::PodB), At::PodB, At::PodA.address(version));
        stage.assert_received(At::Node, &at(At::PodA), At::PodA, gateway(version));
        stage.assert_received(At::PodA, &at(At::Outside), At::Outside, At::Node.address(version));
        stage.assert_received(At::Outside, &at(At::PodA), At::PodA, At::Outside.address(version));
        let host_port = format!("{}:8080", bracketed(At::Node.address(version)));
        stage.assert_received(At::PodA, &host_port, At::PodA, gateway(version));
        stage.assert_received(At::PodB, &host_port, At::PodA, gateway(version));
    }
}

#[tokio::test]
async fn pod_cannot_poison_neighbour_or_bridge_forwarding_tables() {
    let scene = Scene::new().await;
    let (a, b) = (&scene.a, &scene.b);
    let mac = |wire: &Wire| wire.mac.map(|byte| format!("{byte:02x}")).join(":");
    let victim = At::PodB.address(4);
    let neighbours = || run(&format!("ip neigh show {victim} dev {BRIDGE}"));
    let forwarding = || run(&format!("bridge fdb show br {BRIDGE} | grep {}", mac(b)));
    // The kernel does not overwrite a new neighbour within a second.
    let forget = || run(&format!("ip neigh flush dev {BRIDGE}"));
    forget();
    let attack = || {
        // The first frame attacks the forwarding database, the second one the host's neighbour table.
        a.send(&ethernet(CONTROL, b.mac, 0x88b5, &[0; 50]));
        a.send(&arp([0xff; 6], a.mac, false, (a.mac, victim), gateway(4)));
    };
    let is_poisoned = async |is: bool| {
        let look = async || {
            let (neighbours, forwarding) = (neighbours(), forwarding());
            let found = (neighbours.contains(&mac(a)), forwarding.contains(&At::PodA.port()));
            if found == (is, is) { Ok(()) } else { Err(format!("{found:?}: {neighbours} {forwarding}")) }
        };
        wait_until(DEADLINE, look).await.unwrap();
    };
    attack();
    is_poisoned(true).await;
    scene.ensure();
    forget();
    // A frame of the victim corrects both.
    b.send(&arp([0xff; 6], b.mac, false, (b.mac, victim), gateway(4)));
    is_poisoned(false).await;
    forget();
    attack();
    // Later frames have arrived, so the kernel has processed the attack.
    scene.assert_guarded();
    is_poisoned(false).await;
}

#[tokio::test]
async fn anti_spoofing_rules_allow_link_local_addresses_and_multicast_groups() {
    let scene = Scene::new().await;
    scene.ensure();
    // The interface starts again, with duplicate address detection from `::`.
    let states = scene.stage.at(At::PodA, || {
        run("ip link set eth0 down; ip link set eth0 up");
        add(At::PodA.address(6), 64, "eth0");
        "ip -6 addr show dev eth0 scope link"
    });
    let look = async || {
        let shown = scene.stage.at(At::PodA, || run(states));
        let is_good = shown.contains(&link_local(scene.a.mac));
        let is_good = is_good && !shown.contains("tentative") && !shown.contains("dadfailed");
        if is_good { Ok(()) } else { Err(shown) }
    };
    wait_until(DEADLINE, look).await.unwrap();
    let groups = || run(&format!("bridge mdb show dev {BRIDGE}"));
    // Reports of a multicast listener without an address, and with a foreign one.
    let report = |source: &str, group: &str| {
        let octets = group.parse::<std::net::Ipv6Addr>().unwrap().octets();
        let body = [&[0; 4][..], &octets].concat();
        scene.a.send(&icmpv6(scene.a.mac, (source, group), 131, &body, Behind::RouterAlert));
    };
    report("fe80::1", "ff15::78");
    report("::", "ff15::77");
    scene.assert_guarded();
    let groups = groups();
    assert!(groups.contains("ff15::77") && !groups.contains("ff15::78"), "{groups}");
}

/// Checks the rules after each change until there are no more. Returns the number of repairs.
async fn settle(watch: &mut Watch, scene: &Scene) -> usize {
    let mut repairs = 0;
    while timeout(SILENCE, watch.changed()).await.is_ok() {
        repairs += usize::from(!scene.ensure().is_nothing());
        assert!(repairs < 20, "rules go on changing: {}", run("nft list ruleset"));
    }
    repairs
}

#[tokio::test]
async fn changed_anti_spoofing_rules_are_restored() {
    let scene = Scene::new().await;
    let mut watch = Watch::new().unwrap();
    scene.ensure();
    settle(&mut watch, &scene).await;
    let name = At::PodA.port();
    for harm in [
        "nft flush ruleset".to_owned(),
        format!("nft delete table bridge {BRIDGE}"),
        format!("nft flush table bridge {BRIDGE}"),
        format!("nft flush set bridge {BRIDGE} pods"),
        format!("nft 'delete element bridge {BRIDGE} pods {{ \"{name}\" }}'"),
        format!("nft insert rule bridge {BRIDGE} prerouting accept"),
        format!("nft 'add table bridge {BRIDGE} {{ flags dormant; }}'"),
    ] {
        run(&harm);
        assert!(settle(&mut watch, &scene).await >= 1, "{harm}");
        scene.assert_guarded();
    }
}

#[tokio::test]
async fn anti_spoofing_table_is_removed_with_the_last_pod_and_the_network() {
    let scene = Scene::new().await;
    let tables = || run("nft list tables bridge");
    let mut rules = Rules::open().unwrap();
    rules.ensure(&node(), &[].into(), &[].into()).unwrap();
    assert_eq!(tables(), "", "no pod, no table");
    assert_eq!(rules.lacks_antispoofing(BRIDGE).unwrap(), None);
    assert_eq!(tables(), "", "nothing stays of the question");
    rules.change_pods(BRIDGE, &scene.pods(), &[], &[]).unwrap();
    assert_eq!(tables(), format!("table bridge {BRIDGE}\n"));
    rules.change_pods(BRIDGE, &[].into(), &[], &[]).unwrap();
    assert_eq!(tables(), "");
    scene.ensure();
    rules.remove(BRIDGE).unwrap();
    assert_eq!(run("nft list tables"), "");
}
