//! A node with two pods behind a bridge, and a machine outside, each in a network namespace.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use kubelet::network::nft::{Node, Port, Protocol, Repairs, Rules};
pub use tests::host::{ip, run};
use tests::{DEADLINE, Host, wait_until};

/// The bridge of the node, and its table.
pub const BRIDGE: &str = "coracle-1a2b3c";

/// The port on which every pod and the machine outside tell who asks.
pub const WHO: u16 = 80;

/// What is not answered by then is not answered: all of it happens in one kernel.
pub const UNANSWERED_AFTER: Duration = Duration::from_millis(700);

/// Who is where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Node,
    PodA,
    PodB,
    Outside,
}

impl At {
    /// Its address in a version of IP.
    pub fn address(self, version: u8) -> &'static str {
        match (self, version) {
            (Self::Node, 4) => "192.0.2.1",
            (Self::Node, _) => "fd99::1",
            (Self::PodA, 4) => "10.88.1.2",
            (Self::PodA, _) => "fd88:0:0:1::2",
            (Self::PodB, 4) => "10.88.1.3",
            (Self::PodB, _) => "fd88:0:0:1::3",
            (Self::Outside, 4) => "192.0.2.2",
            (Self::Outside, _) => "fd99::2",
        }
    }
}

/// The address of the bridge.
pub fn gateway(version: u8) -> &'static str {
    if version == 4 { "10.88.1.1" } else { "fd88:0:0:1::1" }
}

/// A pod on another node, as the machine outside has it.
pub fn far_pod(version: u8) -> &'static str {
    if version == 4 { "10.88.2.2" } else { "fd88:0:0:2::2" }
}

/// The node as the kubelet knows it; the cluster is larger than its own part of it.
pub fn node() -> Node {
    Node {
        name: BRIDGE.to_owned(),
        bridge: BRIDGE.to_owned(),
        cidrs: vec!["10.88.1.0/24".parse().unwrap(), "fd88:0:0:1::/64".parse().unwrap()],
        cluster: vec!["10.88.0.0/16".parse().unwrap(), "fd88::/48".parse().unwrap()],
    }
}

/// A TCP port at these addresses of the node that leads to a pod.
pub fn port(at: &str, number: u16, to: At) -> Port {
    of(Protocol::Tcp, at, number, to)
}

/// A port of a protocol.
pub fn of(protocol: Protocol, at: &str, number: u16, to: At) -> Port {
    let at: IpAddr = at.parse().unwrap();
    let to: IpAddr = to.address(if at.is_ipv4() { 4 } else { 6 }).parse().unwrap();
    Port::new(at, protocol, number, SocketAddr::new(to, WHO)).unwrap()
}

/// All of it; the test is on the node but for moments.
pub struct Stage {
    hosts: Vec<Host>,
}

impl Stage {
    /// A stage with all links up, and no rules yet.
    pub async fn new() -> Self {
        let mut hosts = Vec::new();
        for _ in 0..4 {
            hosts.push(Host::new().await);
        }
        let stage = Self { hosts };
        stage.hosts[At::Node as usize].enter();
        ip(&format!("link add {BRIDGE} type bridge forward_delay 0"));
        for version in [4, 6] {
            add(gateway(version), length(version), BRIDGE);
        }
        ip(&format!("link set {BRIDGE} up"));
        stage.link(At::Outside, "out");
        for version in [4, 6] {
            add(At::Node.address(version), length(version), "out");
            let net = if version == 4 { "10.88.2.0/24" } else { "fd88:0:0:2::/64" };
            ip(&format!("route add {net} via {}", At::Outside.address(version)));
        }
        for pod in [At::PodA, At::PodB] {
            let port = format!("{pod:?}");
            stage.link(pod, &port);
            ip(&format!("link set {port} master {BRIDGE}"));
            // Where the kernel shows bridged packets to rules, what a pod sends itself never leaves the bridge.
            ip(&format!("link set {port} type bridge_slave hairpin on"));
            stage
                .at(pod, || [4, 6].map(|version| ip(&format!("route add default via {}", gateway(version)))));
        }
        stage.at(At::Outside, || {
            for version in [4, 6] {
                add(far_pod(version), if version == 4 { 32 } else { 128 }, "lo");
                ip(&format!("route add default via {}", At::Node.address(version)));
            }
        });
        set("ipv4/ip_forward", "1");
        set("ipv6/conf/all/forwarding", "1");
        set(&format!("ipv4/conf/{BRIDGE}/route_localnet"), "1");
        for who in [At::PodA, At::PodB, At::Outside] {
            stage.answer(who);
        }
        for who in [At::PodA, At::PodB, At::Outside] {
            for version in [4, 6] {
                let to = format!("{}:{WHO}", bracketed(who.address(version)));
                stage.hears(At::Node, &to, &format!("{who:?}")).await;
            }
        }
        stage
    }

    /// Does something elsewhere.
    pub fn at<T>(&self, who: At, what: impl FnOnce() -> T) -> T {
        self.hosts[who as usize].at(what)
    }

    /// What a client gets for an answer over TCP: who answers, and for whom it takes the client.
    pub fn ask(&self, who: At, to: &str, within: Duration) -> Result<String, String> {
        self.at(who, || {
            let to: SocketAddr = to.parse().unwrap();
            let mut stream = TcpStream::connect_timeout(&to, within).map_err(|e| e.to_string())?;
            let mut told = String::new();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.read_to_string(&mut told).map_err(|error| error.to_string())?;
            Ok(told)
        })
    }

    /// The same over UDP.
    pub fn ask_udp(&self, who: At, to: &str) -> Result<String, String> {
        self.udp_client(who, to)()
    }

    /// Somebody who asks over UDP, by the same port of its own each time.
    pub fn udp_client(&self, who: At, to: &str) -> impl Fn() -> Result<String, String> {
        let any = if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
        let socket = self.at(who, || UdpSocket::bind(any).unwrap());
        let to = to.parse::<SocketAddr>().unwrap();
        move || {
            socket.connect(to).map_err(|error| error.to_string())?;
            socket.set_read_timeout(Some(DEADLINE)).unwrap();
            socket.send(b"?").map_err(|error| error.to_string())?;
            let mut told = [0; 100];
            let length = socket.recv(&mut told).map_err(|error| error.to_string())?;
            Ok(String::from_utf8_lossy(&told[..length]).into_owned())
        }
    }

    /// A client hears from somebody in the end, whoever that takes it for.
    pub async fn hears(&self, who: At, to: &str, from: &str) {
        let look = async || match self.ask(who, to, UNANSWERED_AFTER) {
            Ok(told) if told.starts_with(from) => Ok(()),
            other => Err(format!("{who:?} to {to}: {other:?}")),
        };
        wait_until(DEADLINE, look).await.unwrap();
    }

    /// A client is answered by this one, who takes it for that one.
    pub fn assert_heard(&self, who: At, to: &str, by: At, source: &str) {
        assert_eq!(self.ask(who, to, DEADLINE), Ok(format!("{by:?} hears {source}")), "{who:?} to {to}");
    }

    /// Nobody answers a client.
    pub fn assert_unheard(&self, who: At, to: &str) {
        let told = self.ask(who, to, UNANSWERED_AFTER);
        assert!(told.is_err(), "{who:?} to {to}: {told:?}");
    }

    /// A client is told at once that nobody is there.
    pub fn assert_refused(&self, who: At, to: &str) {
        let told = self.ask(who, to, DEADLINE).unwrap_err();
        assert!(told.contains("refused"), "{who:?} to {to}: {told}");
    }

    /// Somebody answers everybody who asks for as long as the test runs.
    fn answer(&self, who: At) {
        let say = move |peer: SocketAddr| format!("{who:?} hears {}", peer.ip().to_canonical());
        let (tcp, udp) =
            self.at(who, || (TcpListener::bind(("::", WHO)).unwrap(), UdpSocket::bind(("::", WHO)).unwrap()));
        thread::spawn(move || {
            for stream in tcp.incoming() {
                // Whoever asked may be gone by now.
                let Ok(mut stream) = stream else { continue };
                let Ok(peer) = stream.peer_addr() else { continue };
                let _ = stream.write_all(say(peer).as_bytes());
            }
        });
        thread::spawn(move || {
            loop {
                let (_, peer) = udp.recv_from(&mut [0; 10]).unwrap();
                let _ = udp.send_to(say(peer).as_bytes(), peer);
            }
        });
    }

    /// A pair of links from the node to somebody, who calls it `eth0` and has addresses.
    fn link(&self, to: At, name: &str) {
        self.hosts[to as usize].link(name, "eth0");
        self.at(to, || {
            for version in [4, 6] {
                add(to.address(version), length(version), "eth0");
            }
        });
    }
}

/// Sees to it that the rules are there.
pub fn ensure(node: &Node, ports: &[Port]) -> Repairs {
    Rules::open().unwrap().ensure(node, &ports.iter().copied().collect::<BTreeSet<_>>()).unwrap()
}

/// An address as it stands before a port.
pub fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

/// Sets a switch of the network namespace.
pub fn set(name: &str, value: &str) {
    fs::write(format!("/proc/sys/net/{name}"), value).unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Gives a link an address, at once: nobody else is there who could have it.
pub fn add(address: &str, length: u8, link: &str) {
    let at_once = if address.contains(':') { " nodad" } else { "" };
    ip(&format!("addr add {address}/{length} dev {link}{at_once}"));
}

fn length(version: u8) -> u8 {
    if version == 4 { 24 } else { 64 }
}
