//! A node with two pods behind a bridge, and an external machine, each in its own network namespace.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use kubelet::network::nft::{Node, POD_PORT_PREFIX, Port, Protocol, Repairs, Rules};
pub use tests::host::{ip, run};
use tests::{DEADLINE, Host, wait_until};

/// The name of the node's bridge and of its nftables table.
pub const BRIDGE: &str = "coracle-1a2b3c";

/// The port on which each pod and the external machine answer with the client's address.
pub const WHO: u16 = 80;

/// Timeout of an answer. All hosts share one kernel, so a later answer is not expected.
pub const UNANSWERED_AFTER: Duration = Duration::from_millis(700);

/// A network namespace of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Node,
    PodA,
    PodB,
    Outside,
}

impl At {
    /// The bridge port to which the pod's veth device is attached.
    pub fn port(self) -> String {
        format!("{POD_PORT_PREFIX}{self:?}")
    }

    /// The address in an IP version.
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

/// The address of the bridge in an IP version.
pub fn gateway(version: u8) -> &'static str {
    if version == 4 { "10.88.1.1" } else { "fd88:0:0:1::1" }
}

/// The address of a pod on another node, which the external machine holds.
pub fn far_pod(version: u8) -> &'static str {
    if version == 4 { "10.88.2.2" } else { "fd88:0:0:2::2" }
}

/// The node as the kubelet configures it; the cluster CIDR is larger than the node's pod CIDR.
pub fn node() -> Node {
    Node {
        name: BRIDGE.to_owned(),
        bridge: BRIDGE.to_owned(),
        cidrs: vec!["10.88.1.0/24".parse().unwrap(), "fd88:0:0:1::/64".parse().unwrap()],
        cluster: vec!["10.88.0.0/16".parse().unwrap(), "fd88::/48".parse().unwrap()],
        serves_services: true,
        dns_servers: [4, 6].map(|version| gateway(version).parse().unwrap()).to_vec(),
    }
}

/// A TCP host port at an address of the node that leads to a pod.
pub fn port(at: &str, number: u16, to: At) -> Port {
    of(Protocol::Tcp, at, number, to)
}

/// A host port of a protocol.
pub fn of(protocol: Protocol, at: &str, number: u16, to: At) -> Port {
    let at: IpAddr = at.parse().unwrap();
    let to: IpAddr = to.address(if at.is_ipv4() { 4 } else { 6 }).parse().unwrap();
    Port::new(at, protocol, number, SocketAddr::new(to, WHO)).unwrap()
}

/// All network namespaces; the test's thread is in the node's except during [`Stage::at`].
pub struct Stage {
    hosts: Vec<Host>,
}

impl Stage {
    /// A stage with all links up and no rules yet.
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
            let port = pod.port();
            stage.link(pod, &port);
            ip(&format!("link set {port} master {BRIDGE}"));
            // When nftables sees bridged packets, a packet from a pod to itself returns through its bridge port only in hairpin mode.
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
                stage.receives(At::Node, &to, &format!("{who:?}")).await;
            }
        }
        stage
    }

    /// Runs a function in another network namespace.
    pub fn at<T>(&self, who: At, what: impl FnOnce() -> T) -> T {
        self.hosts[who as usize].at(what)
    }

    /// The answer that a TCP client gets: the server's name and the client address that the server sees.
    pub fn send_request(&self, who: At, to: &str, within: Duration) -> Result<String, String> {
        self.at(who, || {
            let to: SocketAddr = to.parse().unwrap();
            let mut stream = TcpStream::connect_timeout(&to, within).map_err(|e| e.to_string())?;
            let mut response = String::new();
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
            stream.read_to_string(&mut response).map_err(|error| error.to_string())?;
            Ok(response)
        })
    }

    /// The answer that a UDP client gets.
    pub fn query_udp(&self, who: At, to: &str) -> Result<String, String> {
        self.udp_client(who, to)()
    }

    /// A UDP client that sends from the same port each time.
    pub fn udp_client(&self, who: At, to: &str) -> impl Fn() -> Result<String, String> {
        let any = if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
        let socket = self.at(who, || UdpSocket::bind(any).unwrap());
        let to = to.parse::<SocketAddr>().unwrap();
        move || {
            socket.connect(to).map_err(|error| error.to_string())?;
            socket.set_read_timeout(Some(DEADLINE)).unwrap();
            socket.send(b"?").map_err(|error| error.to_string())?;
            let mut response = [0; 100];
            let length = socket.recv(&mut response).map_err(|error| error.to_string())?;
            Ok(String::from_utf8_lossy(&response[..length]).into_owned())
        }
    }

    /// Waits until a client gets an answer from this server, whatever client address the server sees.
    pub async fn receives(&self, who: At, to: &str, from: &str) {
        let look = async || match self.send_request(who, to, UNANSWERED_AFTER) {
            Ok(response) if response.starts_with(from) => Ok(()),
            other => Err(format!("{who:?} to {to}: {other:?}")),
        };
        wait_until(DEADLINE, look).await.unwrap();
    }

    /// Asserts that this server answers the client and sees the given source address.
    pub fn assert_received(&self, who: At, to: &str, by: At, source: &str) {
        assert_eq!(
            self.send_request(who, to, DEADLINE),
            Ok(format!("{by:?} sees {source}")),
            "{who:?} to {to}"
        );
    }

    /// Asserts that a client gets no answer.
    pub fn assert_not_received(&self, who: At, to: &str) {
        let response = self.send_request(who, to, UNANSWERED_AFTER);
        assert!(response.is_err(), "{who:?} to {to}: {response:?}");
    }

    /// Asserts that the connection of a client is refused at once.
    pub fn assert_refused(&self, who: At, to: &str) {
        let response = self.send_request(who, to, DEADLINE).unwrap_err();
        assert!(response.contains("refused"), "{who:?} to {to}: {response}");
    }

    /// Starts a server that answers each client until the test ends.
    fn answer(&self, who: At) {
        let response_text = move |peer: SocketAddr| format!("{who:?} sees {}", peer.ip().to_canonical());
        let (tcp, udp) =
            self.at(who, || (TcpListener::bind(("::", WHO)).unwrap(), UdpSocket::bind(("::", WHO)).unwrap()));
        thread::spawn(move || {
            for stream in tcp.incoming() {
                // The client may have closed its connection already.
                let Ok(mut stream) = stream else { continue };
                let Ok(peer) = stream.peer_addr() else { continue };
                let _ = stream.write_all(response_text(peer).as_bytes());
            }
        });
        thread::spawn(move || {
            loop {
                let (_, peer) = udp.recv_from(&mut [0; 10]).unwrap();
                let _ = udp.send_to(response_text(peer).as_bytes(), peer);
            }
        });
    }

    /// A veth pair from the node to another namespace, where the device is `eth0` and has addresses.
    fn link(&self, to: At, name: &str) {
        self.hosts[to as usize].link(name, "eth0");
        self.at(to, || {
            for version in [4, 6] {
                add(to.address(version), length(version), "eth0");
            }
        });
    }
}

/// Ensures the packet rules.
pub fn ensure(node: &Node, ports: &[Port]) -> Repairs {
    let ports = ports.iter().copied().collect::<BTreeSet<_>>();
    Rules::open().unwrap().ensure(node, &ports, &[].into()).unwrap()
}

/// An address as it is written before a port.
pub fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

/// Sets a sysctl of the network namespace.
pub fn set(name: &str, value: &str) {
    fs::write(format!("/proc/sys/net/{name}"), value).unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Adds an address to a link without duplicate address detection: no other machine can have it.
pub fn add(address: &str, length: u8, link: &str) {
    let at_once = if address.contains(':') { " nodad" } else { "" };
    ip(&format!("addr add {address}/{length} dev {link}{at_once}"));
}

fn length(version: u8) -> u8 {
    if version == 4 { 24 } else { 64 }
}
