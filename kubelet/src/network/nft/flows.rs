//! What the kernel remembers of who talks to whom, and which of it has to be forgotten when ports change or nodes come.
//!
//! A connection of TCP ends with its pod. Over UDP a client that goes on from the same port of its own is led on to where it was led
//! before, for as long as it does not pause: to a pod that is gone, or to nobody. So a pod that spoke to those of another node
//! before that node was known is seen as its own node.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use rustix::io::Errno;

use super::ports::{Changes, Port, Protocol, read_address};
use super::socket::{Fault, Socket};
use super::wire::{ACK, Attributes, DUMP, Message, Received, find, number};
use super::{Family, Node};

/// The subsystem of connections, the upper byte of its messages (linux/netfilter/nfnetlink.h).
const CONNECTIONS: u16 = 1;
/// `IPCTNL_MSG_CT_GET` and `IPCTNL_MSG_CT_DELETE` (linux/netfilter/nfnetlink_conntrack.h, as all below).
const GET: u16 = 1;
const DELETE: u16 = 2;
/// `CTA_TUPLE_ORIG`: from the client, as it was sent.
const ASKED: u16 = 1;
/// `CTA_TUPLE_REPLY`: back to the client, as it is sent.
const ANSWERED: u16 = 2;
/// `CTA_STATUS`, and its bit `IPS_SEEN_REPLY`.
const STATUS: u16 = 3;
const SEEN_REPLY: u32 = 1 << 1;
/// `CTA_ZONE` and `CTA_ID`.
const ZONE: u16 = 18;
const ID: u16 = 12;
/// Of a tuple: `CTA_TUPLE_IP` and `CTA_TUPLE_PROTO`.
const IP: u16 = 1;
const PROTOCOL: u16 = 2;
/// Of addresses: `CTA_IP_V4_SRC`, `CTA_IP_V6_SRC`; what they go to has the next number.
const V4_SOURCE: u16 = 1;
const V6_SOURCE: u16 = 3;
/// Of a protocol: `CTA_PROTO_NUM`, `CTA_PROTO_SRC_PORT`, `CTA_PROTO_DST_PORT`.
const NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const TARGET_PORT: u16 = 3;

/// Some client and whom it talks to, over UDP.
#[derive(Debug)]
struct Flow {
    /// Where the client sends from.
    from: SocketAddr,
    /// Where the client sends to.
    to: SocketAddr,
    /// Who gets it.
    gets: SocketAddr,
    /// Whom that one takes for the client.
    seen_as: SocketAddr,
    /// Whether anything came back.
    is_answered: bool,
    /// What names it to the kernel.
    name: Attributes,
}

impl Flow {
    /// Reads one; none if it is of another protocol.
    fn read(received: &Received<'_>) -> Option<Self> {
        let told = received.attributes();
        let (asked, answered) = (find(told, ASKED)?, find(told, ANSWERED)?);
        let (from, to) = (end(asked, 0, SOURCE_PORT)?, end(asked, 1, TARGET_PORT)?);
        let (gets, seen_as) = (end(answered, 0, SOURCE_PORT)?, end(answered, 1, TARGET_PORT)?);
        let is_answered = number(told, STATUS)? & SEEN_REPLY != 0;
        let mut name = Attributes::new().nested_bytes(ASKED, asked);
        for kind in [ZONE, ID] {
            if let Some(value) = find(told, kind) {
                name = name.bytes(kind, value);
            }
        }
        Some(Self { from, to, gets, seen_as, is_answered, name })
    }

    /// Whether it goes another way than clients are to go from now on.
    fn is_stale(&self, changes: &Changes) -> bool {
        let is_at = |port: &&Port| {
            let (at, protocol, number) = port.place();
            protocol == Protocol::Udp
                && number == self.to.port()
                && at.is_ipv4() == self.to.is_ipv4()
                && (at.is_unspecified() || at == self.to.ip())
        };
        let led_here = |port: &Port| self.gets == port.leads_to();
        // What is led nowhere and answered is somebody's who asks others by the same port.
        let is_led = self.gets != self.to;
        changes.remove.iter().filter(is_at).any(led_here)
            || changes.add.iter().filter(is_at).any(|port| !led_here(port) && (is_led || !self.is_answered))
    }

    /// Whether a pod of the node is seen as somebody else by pods of other nodes. What is led elsewhere on its way may have to be.
    fn is_masked(&self, node: &Node) -> bool {
        let is_of = |ranges: &[IpNet], end: SocketAddr| ranges.iter().any(|range| range.contains(&end.ip()));
        self.seen_as.ip() != self.from.ip()
            && self.gets == self.to
            && is_of(&node.cidrs, self.from)
            && is_of(&node.cluster, self.to)
    }
}

/// One end of a tuple over UDP: `side` is 0 where it comes from, 1 where it goes to.
fn end(tuple: &[u8], side: u16, port: u16) -> Option<SocketAddr> {
    let (ip, protocol) = (find(tuple, IP)?, find(tuple, PROTOCOL)?);
    if find(protocol, NUMBER)? != [Protocol::Udp.number()] {
        return None;
    }
    let (family, bytes) = match (find(ip, V4_SOURCE + side), find(ip, V6_SOURCE + side)) {
        (Some(bytes), _) => (Family::V4, bytes),
        (None, bytes) => (Family::V6, bytes?),
    };
    let (address, _) = read_address(family, bytes).filter(|(_, rest)| rest.is_empty())?;
    Some(SocketAddr::new(address, u16::from_be_bytes(find(protocol, port)?.try_into().ok()?)))
}

/// Forgets what goes another way since ports have changed. Nearly always nothing of UDP has, which costs nothing. A kernel that
/// cannot say what it remembers leaves such clients waiting until they pause, which is no reason to have no ports.
pub(super) fn forget(socket: &mut Socket, changes: &Changes) {
    let changed = || changes.add.iter().chain(&changes.remove).map(Port::place);
    for family in Family::BOTH {
        let is_of_it = |at: IpAddr| Family::of(at) == family;
        if changed().any(|(at, protocol, _)| protocol == Protocol::Udp && is_of_it(at))
            && let Err(fault) = forget_of(socket, family, |flow| flow.is_stale(changes))
        {
            tracing::warn!(error = %fault.errno(), "clients of a UDP port that leads elsewhere now may find it only after a pause");
        }
    }
}

/// Forgets by which other address pods are seen that spoke to ranges of other nodes before those were known.
pub(super) fn unmask(socket: &mut Socket, node: &Node) {
    for family in Family::BOTH {
        if node.cluster.iter().any(|range| Family::of(range.addr()) == family)
            && let Err(fault) = forget_of(socket, family, |flow| flow.is_masked(node))
        {
            tracing::warn!(error = %fault.errno(), "pods that speak to others over UDP may be seen as their node until they pause");
        }
    }
}

fn forget_of(socket: &mut Socket, family: Family, is_meant: impl Fn(&Flow) -> bool) -> Result<(), Fault> {
    let message = |kind, flags, attributes| {
        let kind = (CONNECTIONS << 8) | kind;
        Message { kind, flags, family: family.number(), subsystem: 0, attributes }
    };
    // One that comes while they are listed goes the new way already.
    let flows = socket.list_all(&message(GET, DUMP, Attributes::new()), Flow::read)?;
    for flow in flows.into_iter().filter(|flow| is_meant(flow)) {
        match socket.carry_out(&message(DELETE, ACK, flow.name)) {
            // It has ended by itself.
            Err(Fault::Refused { errno: Errno::NOENT, .. }) | Ok(()) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{Attributes, Changes, Flow, Node, Port, Protocol};

    fn flow(from: &str, to: &str, gets: &str, seen_as: &str, is_answered: bool) -> Flow {
        let [from, to, gets, seen_as] = [from, to, gets, seen_as].map(|end| end.parse().unwrap());
        Flow { from, to, gets, seen_as, is_answered, name: Attributes::new() }
    }

    #[test]
    fn pods_that_are_seen_as_their_node_by_other_pods_are_masked() {
        let ranges = |text: &str| vec![text.parse().unwrap()];
        let name = "node".to_owned();
        let (cidrs, cluster) = (ranges("10.0.0.0/24"), ranges("10.0.1.0/24"));
        let node = Node { bridge: name.clone(), name, cidrs, cluster };
        let check = |from, to, gets, seen_as| flow(from, to, gets, seen_as, true).is_masked(&node);
        let (pod, other, own, out) = ("10.0.0.2:40", "10.0.1.2:53", "192.0.2.1:40", "9.9.9.9:53");
        assert!(check(pod, other, other, own));
        assert!(!check(pod, other, other, pod), "it is seen as itself");
        assert!(!check(pod, out, out, own), "beyond the cluster");
        assert!(!check("10.0.7.2:40", other, other, own), "none of its pods");
        assert!(!check(pod, other, "10.0.0.3:53", own), "led elsewhere");
    }

    /// Whether a flow is stale once ports were taken away and put in, each as `AT NUMBER TO`.
    fn check(to: &str, gets: &str, is_answered: bool, remove: &str, add: &str) -> bool {
        let ports = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let port = |one: &[&str]| {
                let at = one[0].parse().unwrap();
                Port::new(at, Protocol::Udp, one[1].parse().unwrap(), one[2].parse().unwrap()).unwrap()
            };
            words.chunks(3).map(port).collect()
        };
        let changes = Changes { remove: ports(remove), add: ports(add) };
        flow("192.0.2.9:4000", to, gets, "192.0.2.9:4000", is_answered).is_stale(&changes)
    }

    #[test]
    fn clients_go_where_ports_lead() {
        let (node, one, two) = ("192.0.2.1:53", "10.0.0.2:5353", "10.0.0.3:5353");
        let port = |to: &str| format!("0.0.0.0 53 {to}");
        assert!(check(node, one, true, &port(one), ""), "its pod is gone");
        assert!(check(node, one, true, "", &port(two)), "another has the port");
        assert!(!check(node, one, true, "", &port(one)), "it goes there already");
        assert!(!check(node, two, true, &port(one), ""), "somebody else's");
        assert!(check(node, node, false, "", &port(one)), "nobody was there before");
        assert!(!check("9.9.9.9:53", "9.9.9.9:53", true, "", &port(one)), "the host asks another");
        assert!(!check("192.0.2.1:54", one, true, &port(one), ""), "another port");
        assert!(!check(node, one, true, &format!("192.0.2.7 53 {one}"), ""), "at another address");
        assert!(!check("[fd00::1]:53", "[fd00::1]:53", false, "", &port(one)), "another family");
    }
}
