//! Finds and deletes conntrack entries that are wrong after host ports changed or nodes joined.
//!
//! A TCP connection ends with its pod. A UDP client that keeps its source port and does not pause matches its old
//! conntrack entry. Its packets then go to a pod that is gone. Likewise, a pod that sent to a peer's pods before
//! the peer was known stays masqueraded.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use rustix::io::Errno;

use super::host_ports::{Changes, Port, Protocol, read_address};
use super::socket::{RequestError, Socket};
use super::wire::{ACK, Attributes, DUMP, Message, Received, find, number};
use super::{Family, Node};

/// The conntrack subsystem, which is the upper byte of its message types (linux/netfilter/nfnetlink.h).
const CONNECTIONS: u16 = 1;
/// `IPCTNL_MSG_CT_GET`, followed by `IPCTNL_MSG_CT_DELETE`. All constants below are from
/// linux/netfilter/nfnetlink_conntrack.h.
const GET: u16 = 1;
const DELETE: u16 = 2;
/// Attribute `CTA_TUPLE_ORIG`: the packets of the client, as it sent them.
const TUPLE_ORIG: u16 = 1;
/// Attribute `CTA_TUPLE_REPLY`: the packets to the client, as they are sent.
const TUPLE_REPLY: u16 = 2;
/// Attribute `CTA_STATUS`, followed by its bit `IPS_SEEN_REPLY`.
const STATUS: u16 = 3;
const SEEN_REPLY: u32 = 1 << 1;
/// Attributes `CTA_ZONE` and `CTA_ID`.
const ZONE: u16 = 18;
const ID: u16 = 12;
/// Attributes of a tuple: `CTA_TUPLE_IP` and `CTA_TUPLE_PROTO`.
const IP: u16 = 1;
const PROTOCOL: u16 = 2;
/// Attributes of addresses: `CTA_IP_V4_SRC` and `CTA_IP_V6_SRC`. The destination has the next number.
const V4_SOURCE: u16 = 1;
const V6_SOURCE: u16 = 3;
/// Attributes of a protocol: `CTA_PROTO_NUM`, `CTA_PROTO_SRC_PORT` and `CTA_PROTO_DST_PORT`.
const NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const TARGET_PORT: u16 = 3;

/// A UDP conntrack entry.
#[derive(Debug)]
struct Flow {
    /// Source of the client's packets.
    from: SocketAddr,
    /// Original destination of the client's packets.
    to: SocketAddr,
    /// Source of the replies: the destination after DNAT.
    reply_from: SocketAddr,
    /// Destination of the replies: the source after masquerading.
    reply_to: SocketAddr,
    /// Whether there was a reply.
    is_answered: bool,
    /// The attributes that identify the entry.
    name: Attributes,
}

impl Flow {
    /// Reads an entry. `None` for protocols other than UDP.
    fn read(received: &Received<'_>) -> Option<Self> {
        let attrs = received.attributes();
        let (original, answered) = (find(attrs, TUPLE_ORIG)?, find(attrs, TUPLE_REPLY)?);
        let (from, to) = (end(original, 0, SOURCE_PORT)?, end(original, 1, TARGET_PORT)?);
        let (reply_from, reply_to) = (end(answered, 0, SOURCE_PORT)?, end(answered, 1, TARGET_PORT)?);
        let is_answered = number(attrs, STATUS)? & SEEN_REPLY != 0;
        let mut name = Attributes::new().nested_bytes(TUPLE_ORIG, original);
        for kind in [ZONE, ID] {
            if let Some(value) = find(attrs, kind) {
                name = name.bytes(kind, value);
            }
        }
        Some(Self { from, to, reply_from, reply_to, is_answered, name })
    }

    /// Whether the target of the entry differs from that of the host ports after the changes.
    fn is_stale(&self, changes: &Changes) -> bool {
        let is_at = |port: &&Port| {
            let (at, protocol, number) = port.place();
            protocol == Protocol::Udp
                && number == self.to.port()
                && at.is_ipv4() == self.to.is_ipv4()
                && (at.is_unspecified() || at == self.to.ip())
        };
        let led_here = |port: &Port| self.reply_from == port.target();
        // An entry without DNAT that was answered belongs to another use of the port.
        let is_led = self.reply_from != self.to;
        changes.remove.iter().filter(is_at).any(led_here)
            || changes.add.iter().filter(is_at).any(|port| !led_here(port) && (is_led || !self.is_answered))
    }

    /// Whether the entry leads to none of the endpoints of its Service. `changed` has the endpoints by address.
    fn is_stale_service(&self, changed: &BTreeMap<SocketAddr, &BTreeSet<SocketAddr>>) -> bool {
        let port = SocketAddr::new(Family::of(self.to.ip()).unspecified_address(), self.to.port());
        let Some(endpoints) = changed.get(&self.to).or_else(|| changed.get(&port)) else { return false };
        // An entry without DNAT that was answered belongs to another use of the port.
        !endpoints.contains(&self.reply_from) && (self.reply_from != self.to || !self.is_answered)
    }

    /// Whether the entry masquerades a pod of the node towards pods of other nodes. Entries with DNAT do not count,
    /// because they may need it.
    fn is_masqueraded(&self, node: &Node) -> bool {
        let family_is =
            |ranges: &[IpNet], end: SocketAddr| ranges.iter().any(|range| range.contains(&end.ip()));
        self.reply_to.ip() != self.from.ip()
            && self.reply_from == self.to
            && family_is(&node.cidrs, self.from)
            && family_is(&node.cluster, self.to)
    }
}

/// Reads one end of a UDP tuple. `side` is 0 for the source, 1 for the destination.
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

/// Deletes entries that changed host ports made stale. Without changes of UDP ports, it does nothing. If the kernel
/// cannot list its entries, the error is only logged. Clients then keep their entries until they pause.
pub(super) fn forget(socket: &mut Socket, changes: &Changes) {
    let changed = || changes.add.iter().chain(&changes.remove).map(Port::place);
    for family in Family::BOTH {
        let is_of_it = |at: IpAddr| Family::of(at) == family;
        if changed().any(|(at, protocol, _)| protocol == Protocol::Udp && is_of_it(at))
            && let Err(error) = forget_of(socket, family, |flow| flow.is_stale(changes))
        {
            tracing::warn!(error = %error.errno(), "cannot delete conntrack entries: clients of a changed UDP host port may \
                 reach it only after a pause");
        }
    }
}

/// Deletes entries of pods that are masqueraded towards pods of other nodes.
pub(super) fn forget_masqueraded(socket: &mut Socket, node: &Node) {
    for family in Family::BOTH {
        if node.cluster.iter().any(|range| Family::of(range.addr()) == family)
            && let Err(error) = forget_of(socket, family, |flow| flow.is_masqueraded(node))
        {
            tracing::warn!(error = %error.errno(), "cannot delete conntrack entries: UDP packets from pods to other \
                 nodes may be masqueraded until the flow is idle");
        }
    }
}

/// Deletes UDP entries that lead to endpoints which no longer serve, after a change of the Services. Without `before`, all
/// entries are checked. `before` and `after` have the serving endpoints of each address; the unspecified address means a
/// port of this host. While no endpoint of an address serves, its entries stay, as with a stock kube-proxy: there is no
/// better endpoint.
pub(super) fn forget_services(
    socket: &mut Socket,
    before: Option<&BTreeMap<SocketAddr, BTreeSet<SocketAddr>>>,
    after: &BTreeMap<SocketAddr, BTreeSet<SocketAddr>>,
) {
    let gone = before.into_iter().flatten().filter(|(at, _)| !after.contains_key(*at));
    let changed = after
        .iter()
        .filter(|(at, to)| !to.is_empty() && before.is_none_or(|before| before.get(*at) != Some(*to)));
    let none = BTreeSet::new();
    let changed: BTreeMap<SocketAddr, &BTreeSet<SocketAddr>> =
        changed.map(|(at, to)| (*at, to)).chain(gone.map(|(at, _)| (*at, &none))).collect();
    for family in Family::BOTH {
        if changed.keys().any(|at| Family::of(at.ip()) == family)
            && let Err(error) = forget_of(socket, family, |flow| flow.is_stale_service(&changed))
        {
            tracing::warn!(error = %error.errno(), "cannot delete conntrack entries: clients of a changed UDP Service may \
                 reach it only after a pause");
        }
    }
}

fn forget_of(
    socket: &mut Socket,
    family: Family,
    is_meant: impl Fn(&Flow) -> bool,
) -> Result<(), RequestError> {
    let message = |kind, flags, attributes| {
        let kind = (CONNECTIONS << 8) | kind;
        Message { kind, flags, family: family.number(), subsystem: 0, attributes }
    };
    // New entries that appear meanwhile follow the new rules already.
    let flows = socket.list_all(&message(GET, DUMP, Attributes::new()), Flow::read)?;
    for flow in flows.into_iter().filter(|flow| is_meant(flow)) {
        match socket.execute(&message(DELETE, ACK, flow.name)) {
            // The entry has expired meanwhile.
            Err(RequestError::Refused { errno: Errno::NOENT, .. }) | Ok(()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{Attributes, Changes, Flow, Node, Port, Protocol};

    fn flow(from: &str, to: &str, reply_from: &str, reply_to: &str, is_answered: bool) -> Flow {
        let [from, to, reply_from, reply_to] =
            [from, to, reply_from, reply_to].map(|end| end.parse().unwrap());
        Flow { from, to, reply_from, reply_to, is_answered, name: Attributes::new() }
    }

    #[test]
    fn masqueraded_pod_flows_are_detected() {
        let ranges = |text: &str| vec![text.parse().unwrap()];
        let name = "node".to_owned();
        let (cidrs, cluster) = (ranges("10.0.0.0/24"), ranges("10.0.1.0/24"));
        let node = Node { bridge: name.clone(), name, cidrs, cluster, ..Node::default() };
        let check =
            |from, to, reply_from, reply_to| flow(from, to, reply_from, reply_to, true).is_masqueraded(&node);
        let (pod, other, own, out) = ("10.0.0.2:40", "10.0.1.2:53", "192.0.2.1:40", "9.9.9.9:53");
        assert!(check(pod, other, other, own));
        assert!(!check(pod, other, other, pod), "it is seen as itself");
        assert!(!check(pod, out, out, own), "beyond the cluster");
        assert!(!check("10.0.7.2:40", other, other, own), "none of its pods");
        assert!(!check(pod, other, "10.0.0.3:53", own), "led elsewhere");
    }

    /// Whether an entry is stale after ports were removed and added, each as `AT NUMBER TO`.
    fn check(to: &str, reply_from: &str, is_answered: bool, remove: &str, add: &str) -> bool {
        let ports = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().collect();
            let port = |one: &[&str]| {
                let at = one[0].parse().unwrap();
                Port::new(at, Protocol::Udp, one[1].parse().unwrap(), one[2].parse().unwrap()).unwrap()
            };
            words.chunks(3).map(port).collect()
        };
        let changes = Changes { remove: ports(remove), add: ports(add) };
        flow("192.0.2.9:4000", to, reply_from, "192.0.2.9:4000", is_answered).is_stale(&changes)
    }

    #[test]
    fn stale_host_port_flows_are_detected() {
        let (node, one, two) = ("192.0.2.1:53", "10.0.0.2:5353", "10.0.0.3:5353");
        let port = |to: &str| format!("0.0.0.0 53 {to}");
        assert!(check(node, one, true, &port(one), ""), "its pod is gone");
        assert!(check(node, one, true, "", &port(two)), "another has the port");
        assert!(!check(node, one, true, "", &port(one)), "it goes there already");
        assert!(!check(node, two, true, &port(one), ""), "a flow of another client");
        assert!(check(node, node, false, "", &port(one)), "the port had no pod before");
        assert!(!check("9.9.9.9:53", "9.9.9.9:53", true, "", &port(one)), "the host asks another");
        assert!(!check("192.0.2.1:54", one, true, &port(one), ""), "another port");
        assert!(!check(node, one, true, &format!("192.0.2.7 53 {one}"), ""), "at another address");
        assert!(!check("[fd00::1]:53", "[fd00::1]:53", false, "", &port(one)), "another family");
    }
}
