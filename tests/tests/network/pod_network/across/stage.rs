//! Three nodes with a pod each, a router between the first two and the third, and an external machine, each in a network namespace.
//!
//! The router has no routes for pods. A thread is in one namespace at a time, so these tests need a single-threaded runtime.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use ipnet::IpNet;
use kubelet::network::Member;
use kubelet::network::native::{PeerRoutes, SyncResult};
use kubelet::network::nft;
use tests::{DEADLINE, Host};

use crate::pod_network::rules::stage::{add, bracketed, ensure, ip, set};

/// The port on which every server answers with the client's address.
const WHO: u16 = 80;
/// The port of the pods' echo servers.
const ECHO: u16 = 81;
/// The name of each node's bridge.
const BRIDGE: &str = "pods";

/// A network namespace of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    A,
    B,
    C,
    PodA,
    PodB,
    PodC,
    Router,
    Outside,
}

/// The nodes, oldest first.
pub const NODES: [At; 3] = [At::A, At::B, At::C];
/// The pods of the nodes.
pub const PODS: [At; 3] = [At::PodA, At::PodB, At::PodC];
const ALL: [At; 8] = [At::A, At::B, At::C, At::PodA, At::PodB, At::PodC, At::Router, At::Outside];

impl At {
    /// The index of a node, or of a pod's node.
    pub fn number(self) -> usize {
        match self {
            Self::A | Self::PodA => 0,
            Self::B | Self::PodB => 1,
            Self::C | Self::PodC => 2,
            Self::Router | Self::Outside => 9,
        }
    }

    /// The address in an IP version.
    pub fn address(self, version: u8) -> String {
        let number = self.number() + 1;
        match (self, version) {
            (Self::A | Self::B, 4) => format!("192.0.2.{number}"),
            (Self::A | Self::B, _) => format!("fd99::{number}"),
            (Self::C, 4) => "198.51.100.3".to_owned(),
            (Self::C, _) => "fd98::3".to_owned(),
            (Self::PodA | Self::PodB | Self::PodC, 4) => format!("10.244.{number}.2"),
            (Self::PodA | Self::PodB | Self::PodC, _) => format!("fd00:{number}::2"),
            (Self::Outside, 4) => "203.0.113.9".to_owned(),
            (Self::Outside, _) => "fd97::9".to_owned(),
            (Self::Router, 4) => "192.0.2.254".to_owned(),
            (Self::Router, _) => "fd99::fe".to_owned(),
        }
    }
}

/// The pod CIDR of a node.
pub fn range(number: usize, version: u8) -> IpNet {
    let number = number + 1;
    let text = if version == 4 { format!("10.244.{number}.0/24") } else { format!("fd00:{number}::/64") };
    text.parse().unwrap()
}

/// A node as its peers know it, with all its addresses and pod CIDRs.
pub fn member(node: At) -> Member {
    Member {
        name: format!("node-{node:?}").to_lowercase(),
        is_older: false,
        addresses: [4, 6].map(|version| node.address(version).parse().unwrap()).to_vec(),
        port: 10250,
        ranges: [4, 6].map(|version| range(node.number(), version)).to_vec(),
    }
}

/// All network namespaces; the test's thread is in the router's except during [`Stage::at`].
pub struct Stage {
    hosts: Vec<Host>,
    across: Vec<PeerRoutes>,
    /// The members of the cluster.
    pub members: Vec<Member>,
}

impl Stage {
    /// A stage with all links up, whose nodes do not know each other yet.
    pub async fn new() -> Self {
        let mut hosts = Vec::new();
        for _ in ALL {
            hosts.push(Host::new().await);
        }
        let members: Vec<Member> = NODES.map(member).to_vec();
        let across = members.iter().map(|member| PeerRoutes::new(&member.name)).collect();
        let stage = Self { hosts, across, members };
        stage.lay_out();
        for who in NODES.into_iter().chain(PODS).chain([At::Outside]) {
            stage.answer(who);
        }
        stage
    }

    fn lay_out(&self) {
        for who in ALL {
            self.enter(who);
            // Addresses are usable at once: no other machine can have them.
            set("ipv6/conf/default/accept_dad", "0");
        }
        self.enter(At::Router);
        ip("link add lan type bridge forward_delay 0");
        add("192.0.2.254", 24, "lan");
        add("fd99::fe", 64, "lan");
        ip("link set lan up");
        set("ipv4/ip_forward", "1");
        set("ipv6/conf/all/forwarding", "1");
        for (node, port) in [(At::A, "to-a"), (At::B, "to-b"), (At::C, "to-c"), (At::Outside, "out")] {
            self.link(At::Router, port, node);
        }
        ip("link set to-a master lan");
        ip("link set to-b master lan");
        for (port, v4, v6) in [("to-c", "198.51.100.254", "fd98::fe"), ("out", "203.0.113.254", "fd97::fe")] {
            add(v4, 24, port);
            add(v6, 64, port);
        }
        for (node, v4, v6) in [
            (At::A, "192.0.2.254", "fd99::fe"),
            (At::B, "192.0.2.254", "fd99::fe"),
            (At::C, "198.51.100.254", "fd98::fe"),
            (At::Outside, "203.0.113.254", "fd97::fe"),
        ] {
            self.at(node, || {
                add(&node.address(4), 24, "eth0");
                add(&node.address(6), 64, "eth0");
                ip(&format!("route add default via {v4}"));
                ip(&format!("route add default via {v6}"));
            });
        }
        for (node, pod) in NODES.into_iter().zip(PODS) {
            let gateways =
                [4, 6].map(|version| range(node.number(), version).hosts().next().unwrap().to_string());
            let gateways = [gateways[0].clone(), gateways[1].replace("::", "::1").replace("::11", "::1")];
            self.enter(node);
            ip(&format!("link add {BRIDGE} type bridge forward_delay 0"));
            add(&gateways[0], 24, BRIDGE);
            add(&gateways[1], 64, BRIDGE);
            ip(&format!("link set {BRIDGE} up"));
            set("ipv4/ip_forward", "1");
            set("ipv6/conf/all/forwarding", "1");
            // Many distributions set the strict reverse-path filter.
            set("ipv4/conf/all/rp_filter", "1");
            self.link(node, "pod", pod);
            ip(&format!("link set pod master {BRIDGE}"));
            self.at(pod, || {
                add(&pod.address(4), 24, "eth0");
                add(&pod.address(6), 64, "eth0");
                gateways.iter().for_each(|gateway| ip(&format!("route add default via {gateway}")));
            });
        }
        self.enter(At::Router);
    }

    /// Runs a function in another network namespace.
    pub fn at<T>(&self, who: At, what: impl FnOnce() -> T) -> T {
        self.enter(who);
        let done = what();
        self.enter(At::Router);
        done
    }

    /// A node applies the membership.
    pub fn sync(&mut self, node: At) -> SyncResult {
        let number = node.number();
        let own = self.members[number].ranges.clone();
        let others: Vec<Member> = (0..self.members.len())
            .filter(|other| *other != number)
            .map(|other| Member { is_older: other < number, ..self.members[other].clone() })
            .collect();
        self.enter(node);
        let name = BRIDGE.to_owned();
        let know = |cluster: &[IpNet]| {
            let (name, bridge) = (name.clone(), name.clone());
            let (cidrs, cluster) = (own.clone(), cluster.to_vec());
            ensure(&nft::Node { name, bridge, cidrs, cluster, ..nft::Node::default() }, &[]);
        };
        let response = self.across[number].sync(&own, &others, know);
        self.enter(At::Router);
        response
    }

    /// All nodes apply the membership and report nothing.
    pub fn settle_all(&mut self) {
        for node in NODES {
            let response = self.sync(node);
            assert_eq!((response.failed, response.warnings), (None, [].into()), "{node:?}");
        }
    }

    /// A node removes its whole pod network.
    pub fn remove(&mut self, node: At) {
        self.enter(node);
        self.across[node.number()].remove().unwrap();
        self.enter(At::Router);
    }

    /// The answer that a client gets: the server's name and the client address that the server sees.
    pub fn send_request(&self, who: At, to: &str, within: Duration) -> Result<String, String> {
        self.at(who, || {
            let to = SocketAddr::new(to.parse().unwrap(), WHO);
            let mut stream = TcpStream::connect_timeout(&to, within).map_err(|error| error.to_string())?;
            let mut response = String::new();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.read_to_string(&mut response).map_err(|error| error.to_string())?;
            Ok(response)
        })
    }

    /// Asserts that this server answers the client and sees the given source address.
    pub fn assert_received(&self, who: At, by: At, version: u8, source: &str) {
        let response = self.send_request(who, &by.address(version), DEADLINE);
        assert_eq!(response, Ok(format!("{by:?} sees {source}")), "{who:?} to {by:?} over IPv{version}");
    }

    /// Asserts that all pods reach each other with their own source addresses.
    pub fn assert_all_connected(&self) {
        for version in [4, 6] {
            for (who, by) in PODS.into_iter().flat_map(|who| PODS.map(|by| (who, by))) {
                if who != by {
                    self.assert_received(who, by, version, &who.address(version));
                }
            }
        }
    }

    /// A connection between two pods.
    pub fn connect(&self, from: At, to: At, version: u8) -> Connection {
        self.at(from, || {
            let to: SocketAddr = format!("{}:{ECHO}", bracketed(&to.address(version))).parse().unwrap();
            let stream = TcpStream::connect_timeout(&to, DEADLINE).unwrap();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            Connection { stream: BufReader::new(stream) }
        })
    }

    /// Starts a server that answers each client until the test ends.
    fn answer(&self, who: At) {
        let (tcp, echo) = self
            .at(who, || (TcpListener::bind(("::", WHO)).unwrap(), TcpListener::bind(("::", ECHO)).unwrap()));
        thread::spawn(move || {
            for stream in tcp.incoming() {
                // The client may have closed its connection already.
                let Ok(mut stream) = stream else { continue };
                let Ok(peer) = stream.peer_addr() else { continue };
                let _ = stream.write_all(format!("{who:?} sees {}", peer.ip().to_canonical()).as_bytes());
            }
        });
        thread::spawn(move || {
            for stream in echo.incoming() {
                let Ok(mut stream) = stream else { continue };
                thread::spawn(move || {
                    let mut echo_stream = stream.try_clone().unwrap();
                    let _ = std::io::copy(&mut echo_stream, &mut stream);
                });
            }
        });
    }

    /// A veth pair from one namespace to another one, where the device is `eth0`.
    fn link(&self, from: At, name: &str, to: At) {
        self.hosts[to as usize].link(name, "eth0");
        self.enter(from);
    }

    /// Moves this thread into a namespace; a node that starts there creates all its threads there.
    pub fn enter(&self, who: At) {
        self.hosts[who as usize].enter();
    }
}

/// A connection that must survive.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Asserts that the server echoes a line.
    pub fn assert_alive(&mut self) {
        self.stream.get_mut().write_all(b"still there?\n").unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert_eq!(line, "still there?\n");
    }
}

/// Parses an address.
pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The maximum processor time of a reconcile without changes, on the slowest machine.
pub const A_LOOK: Duration = Duration::from_secs(2);
