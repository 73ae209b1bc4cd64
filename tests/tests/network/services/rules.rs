//! The service proxy's packet rules, between network namespaces of the test.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use kubelet::network::nft::Protocol;
use kubelet::network::nft::services::{
    Applied, Group, GroupId, ServiceAddress, ServiceNode, ServiceRules, ServiceTable, Side, Target,
};
use tests::DEADLINE;

use crate::pod_network::rules::stage::{
    At, BRIDGE, Stage, WHO, bracketed, ensure, gateway, ip, node, run, set,
};

pub const TABLE: &str = "coracle-services-1a2b3c";

/// The cluster IP of the Service in an IP version.
pub fn cluster_ip(version: u8) -> String {
    if version == 4 { "10.96.0.9:80".to_owned() } else { "[fd96::9]:80".to_owned() }
}

pub fn service_node(filters_bridged: bool) -> ServiceNode {
    ServiceNode { name: TABLE.to_owned(), bridge: BRIDGE.to_owned(), cidrs: node().cidrs, filters_bridged }
}

/// Builds rules for one Service.
#[derive(Clone, Default)]
pub struct Rules(pub ServiceRules);

impl Rules {
    /// A group with these servers in an IP version.
    pub fn group(
        &mut self,
        name: &str,
        version: u8,
        servers: &[At],
        affinity_seconds: Option<u32>,
    ) -> Target {
        let mut endpoints: Vec<SocketAddr> =
            servers.iter().map(|one| SocketAddr::new(one.address(version).parse().unwrap(), WHO)).collect();
        endpoints.sort_unstable();
        let id = GroupId::of(&format!("{name} {version}"));
        self.0.own_endpoints.extend(endpoints.iter().map(SocketAddr::ip));
        self.0.groups.insert(id, Group { affinity_seconds, endpoints });
        Target::Group(id)
    }

    /// Sets the target of an address for one side. Endpoints of a UDP address serve.
    pub fn put(&mut self, side: Side, protocol: Protocol, at: &str, target: Target, is_masqueraded: bool) {
        let at: SocketAddr = at.parse().unwrap();
        let at = ServiceAddress { ip: at.ip(), protocol, port: at.port() };
        self.0.targets.insert((side, at), target);
        if protocol == Protocol::Udp {
            let serving = self.0.serving_udp.entry(SocketAddr::new(at.ip, at.port)).or_default();
            if let Target::Group(id) = target {
                serving.extend(&self.0.groups[&id].endpoints);
            }
        }
        if is_masqueraded {
            self.0.masqueraded.insert(at);
        }
    }

    /// Rules for a cluster IP of both versions, for both protocols.
    pub fn cluster(servers: &[At], affinity_seconds: Option<u32>) -> Self {
        let mut rules = Self::default();
        for version in [4, 6] {
            let target = match servers {
                [] => Target::Reject,
                _ => rules.group("web", version, servers, affinity_seconds),
            };
            for protocol in [Protocol::Tcp, Protocol::Udp] {
                for side in Side::BOTH {
                    rules.put(side, protocol, &cluster_ip(version), target, true);
                }
            }
            rules.0.cluster_ips.insert(cluster_ip(version).parse::<SocketAddr>().unwrap().ip());
        }
        rules
    }

    pub fn apply(&self, table: &mut ServiceTable) -> Applied {
        self.apply_with(table, true)
    }

    pub fn apply_with(&self, table: &mut ServiceTable, filters_bridged: bool) -> Applied {
        table.apply(&service_node(filters_bridged), &Arc::new(self.0.clone())).unwrap()
    }
}

/// A stage with routes of the node and the external machine to cluster IPs, and the rules of the pod network.
pub async fn stage() -> (Stage, ServiceTable) {
    let stage = Stage::new().await;
    for version in [4, 6] {
        ip(&format!("route add default via {}", At::Outside.address(version)));
    }
    ensure(&node(), &[]);
    (stage, ServiceTable::open().unwrap())
}

/// The number of answers of each server.
pub fn count(stage: &Stage, who: At, to: &str, times: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..times {
        let answer = stage.send_request(who, to, DEADLINE).unwrap();
        *counts.entry(answer.split(' ').next().unwrap().to_owned()).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn connections_to_a_cluster_ip_are_distributed_evenly() {
    let (stage, mut table) = stage().await;
    assert!(Rules::cluster(&[At::PodA, At::PodB, At::Outside], None).apply(&mut table).is_new);
    for version in [4, 6] {
        let counts = count(&stage, At::Node, &cluster_ip(version), 300);
        // The standard deviation is 8.2, so a wrong failure is one in 10^7.
        let is_even = counts.len() == 3 && counts.values().all(|count| (55..=145).contains(count));
        assert!(is_even, "{counts:?}");
    }
}

#[tokio::test]
async fn servers_see_pods_as_they_are_and_other_clients_as_the_node() {
    let (stage, mut table) = stage().await;
    set("bridge/bridge-nf-call-iptables", "1");
    set("bridge/bridge-nf-call-ip6tables", "1");
    Rules::cluster(&[At::PodB], None).apply(&mut table);
    for version in [4, 6] {
        let at = cluster_ip(version);
        stage.assert_received(At::PodA, &at, At::PodB, At::PodA.address(version));
        stage.assert_received(At::PodB, &at, At::PodB, gateway(version));
        stage.assert_received(At::Node, &at, At::PodB, gateway(version));
        stage.assert_received(At::Outside, &at, At::PodB, gateway(version));
        let answer = stage.query_udp(At::PodA, &at).unwrap();
        assert_eq!(answer, format!("PodB sees {}", At::PodA.address(version)));
    }
    Rules::cluster(&[At::Outside], None).apply(&mut table);
    // The external machine is no pod, so the pod network masquerades pods towards it.
    stage.assert_received(At::PodA, &cluster_ip(4), At::Outside, At::Node.address(4));
}

#[tokio::test]
async fn pods_of_one_bridge_reach_each_other_if_bridged_frames_pass_no_rules() {
    let (stage, mut table) = stage().await;
    set("bridge/bridge-nf-call-iptables", "0");
    set("bridge/bridge-nf-call-ip6tables", "0");
    Rules::cluster(&[At::PodA, At::PodB], None).apply_with(&mut table, false);
    for version in [4, 6] {
        let counts = count(&stage, At::PodA, &cluster_ip(version), 40);
        assert_eq!(counts.len(), 2, "{counts:?}");
    }
}

#[tokio::test]
async fn node_ports_follow_the_external_policy() {
    let (stage, mut table) = stage().await;
    let mut rules = Rules::default();
    for (version, any) in [(4, "0.0.0.0"), (6, "[::]")] {
        let cluster = rules.group("all", version, &[At::PodA], None);
        let local = rules.group("local", version, &[At::PodB], None);
        for side in Side::BOTH {
            rules.put(side, Protocol::Tcp, &format!("{any}:30080"), cluster, true);
        }
        rules.put(Side::Inside, Protocol::Tcp, &format!("{any}:30081"), cluster, false);
        rules.put(Side::Outside, Protocol::Tcp, &format!("{any}:30081"), local, false);
        rules.put(Side::Outside, Protocol::Tcp, &format!("{any}:30082"), Target::Drop, false);
    }
    rules.apply(&mut table);
    for version in [4, 6] {
        let host = bracketed(At::Node.address(version));
        let (open, local, none) = (format!("{host}:30080"), format!("{host}:30081"), format!("{host}:30082"));
        stage.assert_received(At::Outside, &open, At::PodA, gateway(version));
        stage.assert_received(At::Node, &open, At::PodA, gateway(version));
        stage.assert_received(At::PodB, &open, At::PodA, At::PodB.address(version));
        stage.assert_received(At::Outside, &local, At::PodB, At::Outside.address(version));
        stage.assert_received(At::PodB, &local, At::PodA, At::PodB.address(version));
        stage.assert_not_received(At::Outside, &none);
        stage.assert_refused(At::Outside, &format!("{host}:30083"));
    }
}

#[tokio::test]
async fn a_service_without_endpoints_refuses_at_once() {
    let (stage, mut table) = stage().await;
    Rules::cluster(&[], None).apply(&mut table);
    for version in [4, 6] {
        for who in [At::Node, At::PodA, At::Outside] {
            let start = Instant::now();
            stage.assert_refused(who, &cluster_ip(version));
            assert!(start.elapsed() < Duration::from_millis(500), "{who:?}");
        }
        let udp = stage.query_udp(At::PodA, &cluster_ip(version)).unwrap_err();
        assert!(udp.contains("refused"), "{udp}");
    }
}

#[tokio::test]
async fn ports_of_a_cluster_ip_without_a_service_refuse() {
    let (stage, mut table) = stage().await;
    Rules::cluster(&[At::PodB], None).apply(&mut table);
    for version in [4, 6] {
        let other = cluster_ip(version).replace(":80", ":81");
        for who in [At::Node, At::PodA, At::Outside] {
            stage.assert_refused(who, &other);
        }
        stage.assert_received(At::PodA, &cluster_ip(version), At::PodB, At::PodA.address(version));
    }
}

#[tokio::test]
async fn source_ranges_admit_only_their_clients() {
    let (stage, mut table) = stage().await;
    let mut rules = Rules::default();
    let address = |version| if version == 4 { "203.0.113.1:80" } else { "[fd77::1]:80" };
    for version in [4, 6] {
        let target = rules.group("all", version, &[At::PodB], None);
        for side in Side::BOTH {
            rules.put(side, Protocol::Tcp, address(version), target, true);
        }
    }
    let open = rules.clone();
    for at in open.0.masqueraded.iter() {
        let admitted = At::Outside.address(if at.ip.is_ipv4() { 4 } else { 6 });
        rules.0.sources.insert(*at, vec![IpNet::from(admitted.parse::<IpAddr>().unwrap())]);
    }
    rules.apply(&mut table);
    for version in [4, 6] {
        stage.assert_received(At::Outside, address(version), At::PodB, gateway(version));
        stage.assert_not_received(At::PodA, address(version));
    }
    // The chains of the ranges are deleted with their last user, also together with those to which they lead.
    open.apply(&mut table);
    assert!(!run(&format!("nft list table inet {TABLE}")).contains("sources_"));
    for version in [4, 6] {
        assert_eq!(count(&stage, At::PodA, address(version), 1).keys().next().unwrap(), "PodB");
    }
    rules.apply(&mut table);
    Rules::default().apply(&mut table);
    assert!(!run(&format!("nft list table inet {TABLE}")).contains("inside_1"));
}

#[tokio::test]
async fn two_kubelets_of_one_machine_serve_only_their_own_pods() {
    let (stage, mut table) = stage().await;
    set("bridge/bridge-nf-call-iptables", "1");
    set("bridge/bridge-nf-call-ip6tables", "1");
    let other = ServiceNode {
        name: "coracle-services-ffffff".into(),
        bridge: "coracle-ffffff".into(),
        ..service_node(true)
    };
    let other = ServiceNode { cidrs: vec![], ..other };
    // Its rules come first, because of two chains with one priority the older one runs first.
    let elsewhere = Arc::new(Rules::cluster(&[At::Outside], None).0);
    ServiceTable::open().unwrap().apply(&other, &elsewhere).unwrap();
    Rules::cluster(&[At::PodB], None).apply(&mut table);
    for version in [4, 6] {
        stage.assert_received(At::PodA, &cluster_ip(version), At::PodB, At::PodA.address(version));
    }
}

#[tokio::test]
async fn rules_that_another_program_changes_are_restored() {
    let (stage, mut table) = stage().await;
    let rules = Rules::cluster(&[At::PodB], None);
    rules.apply(&mut table);
    let at = cluster_ip(4);
    for harm in [
        format!("nft delete table inet {TABLE}"),
        format!("nft flush table inet {TABLE}"),
        format!("nft flush chain inet {TABLE} inside_1"),
        format!("nft flush map inet {TABLE} services_inside"),
        format!("nft add chain inet {TABLE} evil '{{ type filter hook input priority 0; policy drop; }}'"),
        format!("nft insert rule inet {TABLE} prerouting drop"),
    ] {
        run(&harm);
        let applied = rules.apply(&mut table);
        assert!(applied.was_changed, "{harm}");
        stage.assert_received(At::PodA, &at, At::PodB, At::PodA.address(4));
        let applied = rules.apply(&mut table);
        assert_eq!((applied.was_changed, applied.elements), (false, 0), "{harm}");
    }
    // A rule elsewhere changes nothing here.
    run("nft add table inet other");
    assert!(!rules.apply(&mut table).was_changed);
    // The rules of another table and the Services change at once.
    run("nft delete table inet other");
    let applied = Rules::cluster(&[At::PodA, At::PodB], None).apply(&mut table);
    assert!(!applied.was_changed && applied.elements > 0, "{applied:?}");
    table.remove(TABLE).unwrap();
    assert!(!run("nft list tables").contains(TABLE));
    table.remove(TABLE).unwrap();
}

#[tokio::test]
async fn one_change_among_many_services_is_quick() {
    let _stage = Stage::new().await;
    let mut table = ServiceTable::open().unwrap();
    let mut rules = Rules::default();
    for service in 0..1000_u32 {
        let id = GroupId::of(&format!("service {service}"));
        let ip = |base: u32, number: u32| std::net::Ipv4Addr::from_bits(base + number);
        let endpoints = (0..10).map(|one| SocketAddr::new(ip(0x0a58_0000, service * 10 + one).into(), 80));
        rules.0.groups.insert(id, Group { affinity_seconds: None, endpoints: endpoints.collect() });
        for side in Side::BOTH {
            let at = format!("{}:80", ip(0x0a60_0000, service));
            rules.put(side, Protocol::Tcp, &at, Target::Group(id), true);
        }
    }
    let start = Instant::now();
    let all = rules.apply(&mut table);
    let full = start.elapsed();
    rules.0.groups.get_mut(&GroupId::of("service 500")).unwrap().endpoints.pop();
    let start = Instant::now();
    let one = rules.apply(&mut table);
    let change = start.elapsed();
    assert_eq!((all.elements, one.elements), (14_000, 5));
    // Debug builds are ten times slower than release builds.
    assert!(full < Duration::from_secs(10) && change < Duration::from_secs(1), "{full:?} {change:?}");
}
