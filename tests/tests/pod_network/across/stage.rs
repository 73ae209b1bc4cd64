//! Three nodes with a pod each, a router between the first two and the third, and a machine outside, each in a network namespace.
//!
//! The router knows nothing of pods. A thread is in one of the namespaces at a time, so these tests need a runtime of one thread.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use ipnet::IpNet;
use kubelet::network::Member;
use kubelet::network::native::{Across, Told};
use kubelet::network::nft;
use tests::{DEADLINE, Host};

use crate::rules::stage::{UNANSWERED_AFTER, add, bracketed, ensure, ip, set};

/// The port on which everybody tells who asks.
const WHO: u16 = 80;
/// The port on which pods say again what they hear.
const ECHO: u16 = 81;
/// The bridge of each node.
const BRIDGE: &str = "pods";

/// Who is where.
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

/// The nodes, the oldest first.
pub const NODES: [At; 3] = [At::A, At::B, At::C];
/// Their pods.
pub const PODS: [At; 3] = [At::PodA, At::PodB, At::PodC];
const ALL: [At; 8] = [At::A, At::B, At::C, At::PodA, At::PodB, At::PodC, At::Router, At::Outside];

impl At {
    /// The number of a node or a pod's node.
    pub fn number(self) -> usize {
        match self {
            Self::A | Self::PodA => 0,
            Self::B | Self::PodB => 1,
            Self::C | Self::PodC => 2,
            Self::Router | Self::Outside => 9,
        }
    }

    /// Its address in a version of IP.
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

/// The range of the pods of a node.
pub fn range(number: usize, version: u8) -> IpNet {
    let number = number + 1;
    let text = if version == 4 { format!("10.244.{number}.0/24") } else { format!("fd00:{number}::/64") };
    text.parse().unwrap()
}

/// A node as the others know it, all that it has and in order of age.
pub fn member(node: At) -> Member {
    Member {
        name: format!("node-{node:?}").to_lowercase(),
        is_older: false,
        addresses: [4, 6].map(|version| node.address(version).parse().unwrap()).to_vec(),
        port: 10250,
        ranges: [4, 6].map(|version| range(node.number(), version)).to_vec(),
    }
}

/// All of it; the test is on the router but for moments.
pub struct Stage {
    hosts: Vec<Host>,
    across: Vec<Across>,
    /// What the cluster says of each node.
    pub members: Vec<Member>,
}

impl Stage {
    /// A stage with all links up, whose nodes do not know of each other yet.
    pub async fn new() -> Self {
        let mut hosts = Vec::new();
        for _ in ALL {
            hosts.push(Host::new().await);
        }
        let members: Vec<Member> = NODES.map(member).to_vec();
        let across = members.iter().map(|member| Across::new(&member.name)).collect();
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
            // Nobody else is there who could have an address: they are good at once.
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
            // As many distributions have it.
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

    /// Does something elsewhere.
    pub fn at<T>(&self, who: At, what: impl FnOnce() -> T) -> T {
        self.enter(who);
        let done = what();
        self.enter(At::Router);
        done
    }

    /// A node takes in what the cluster says.
    pub fn settle(&mut self, node: At) -> Told {
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
            ensure(&nft::Node { name, bridge, cidrs: own.clone(), cluster: cluster.to_vec() }, &[]);
        };
        let told = self.across[number].settle(&own, &others, know);
        self.enter(At::Router);
        told
    }

    /// All nodes do, and have nothing to say.
    pub fn settle_all(&mut self) {
        for node in NODES {
            let told = self.settle(node);
            assert_eq!((told.failed, told.troubles), (None, [].into()), "{node:?}");
        }
    }

    /// A node lets go of everything.
    pub fn remove(&mut self, node: At) {
        self.enter(node);
        self.across[node.number()].remove().unwrap();
        self.enter(At::Router);
    }

    /// What a client gets for an answer: who answers, and for whom it takes the client.
    pub fn ask(&self, who: At, to: &str) -> Result<String, String> {
        self.at(who, || {
            let to = SocketAddr::new(to.parse().unwrap(), WHO);
            let mut stream =
                TcpStream::connect_timeout(&to, UNANSWERED_AFTER).map_err(|error| error.to_string())?;
            let mut told = String::new();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.read_to_string(&mut told).map_err(|error| error.to_string())?;
            Ok(told)
        })
    }

    /// A client is answered by this one, who takes it for that one.
    pub fn assert_heard(&self, who: At, by: At, version: u8, source: &str) {
        let told = self.ask(who, &by.address(version));
        assert_eq!(told, Ok(format!("{by:?} hears {source}")), "{who:?} to {by:?} over IPv{version}");
    }

    /// All pods hear each other, as who they are.
    pub fn assert_all_heard(&self) {
        for version in [4, 6] {
            for (who, by) in PODS.into_iter().flat_map(|who| PODS.map(|by| (who, by))) {
                if who != by {
                    self.assert_heard(who, by, version, &who.address(version));
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

    /// Somebody answers everybody who asks for as long as the test runs.
    fn answer(&self, who: At) {
        let (tcp, echo) = self
            .at(who, || (TcpListener::bind(("::", WHO)).unwrap(), TcpListener::bind(("::", ECHO)).unwrap()));
        thread::spawn(move || {
            for stream in tcp.incoming() {
                // Whoever asked may be gone by now.
                let Ok(mut stream) = stream else { continue };
                let Ok(peer) = stream.peer_addr() else { continue };
                let _ = stream.write_all(format!("{who:?} hears {}", peer.ip().to_canonical()).as_bytes());
            }
        });
        thread::spawn(move || {
            for stream in echo.incoming() {
                let Ok(mut stream) = stream else { continue };
                thread::spawn(move || {
                    let mut heard = stream.try_clone().unwrap();
                    let _ = std::io::copy(&mut heard, &mut stream);
                });
            }
        });
    }

    /// A pair of links from here to somebody, who calls it `eth0`.
    fn link(&self, from: At, name: &str, to: At) {
        self.hosts[to as usize].link(name, "eth0");
        self.enter(from);
    }

    /// Has this thread go there; a node that runs there begins all its threads there.
    pub fn enter(&self, who: At) {
        self.hosts[who as usize].enter();
    }
}

/// A connection that is to live on.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// What is said is heard again.
    pub fn assert_alive(&mut self) {
        self.stream.get_mut().write_all(b"still there?\n").unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert_eq!(line, "still there?\n");
    }
}

/// An address as one.
pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// How long a look takes at most that has nothing to do, on the slowest machine.
pub const A_LOOK: Duration = Duration::from_secs(2);
