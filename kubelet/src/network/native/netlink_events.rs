//! Determines from netlink events about links, addresses, routes, neighbours and sysctls what the reconciler must
//! check.

use std::io;

use futures_util::FutureExt as _;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::route::{RouteHeader, RouteMessage, RouteType};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket as _, AsyncSocketExt as _, SocketAddr, TokioSocket};

use super::Native;
use super::bridge::is_veth;
use super::links::{self, Link};
use super::netlink::{HEADER, LINKS};

/// The `RTMGRP_*` groups to which every node subscribes.
const GROUPS: u32 =
    LINKS | IPV4_ADDRESS | IPV6_ADDRESS | IPV4_ROUTE | IPV6_ROUTE | IPV4_SETTINGS | IPV6_SETTINGS;
/// The groups to which a node with peers subscribes in addition.
const PEER_GROUPS: u32 = NEIGHBOUR;
const NEIGHBOUR: u32 = 0x4;
const IPV4_ADDRESS: u32 = 0x10;
const IPV4_ROUTE: u32 = 0x40;
const IPV6_ADDRESS: u32 = 0x100;
const IPV6_ROUTE: u32 = 0x400;
/// `RTNLGRP_IPV4_NETCONF` and `RTNLGRP_IPV6_NETCONF`.
const IPV4_SETTINGS: u32 = 1 << 23;
const IPV6_SETTINGS: u32 = 1 << 24;
/// The message type `RTM_NEWNETCONF`, which the library lacks.
const RTM_NEWNETCONF: u16 = 80;
/// `NETCONFA_IFINDEX`: the attribute with the index of a link.
const IFINDEX_ATTRIBUTE: u16 = 1;
/// The index that stands for all links: `NETCONFA_IFINDEX_ALL`.
const ALL_LINKS: i32 = -1;
/// Maximum number of events that are merged at once.
const MAX_BATCH: usize = 10_000;

/// What the reconciler has to check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// Whether to check the bridge and the veths.
    pub links: bool,
    /// Whether to check the packet rules.
    pub rules: bool,
    /// Whether to check the routes to peer nodes.
    pub routes: bool,
}

impl Due {
    /// All checks.
    pub const ALL: Self = Self { links: true, rules: true, routes: true };
    const NOTHING: Self = Self { links: false, rules: false, routes: false };
    const LINKS: Self = Self { links: true, rules: false, routes: false };
    const ROUTES: Self = Self { links: false, rules: false, routes: true };
    const BOTH: Self = Self { links: true, rules: false, routes: true };

    fn merge(self, other: Self) -> Self {
        Self {
            links: self.links || other.links,
            rules: self.rules || other.rules,
            routes: self.routes || other.routes,
        }
    }
}

/// Receives changes of the network namespace in which the thread was at the start.
pub(super) struct NetlinkEvents {
    socket: TokioSocket,
    /// Whether the node has no peers, so that routes are ignored.
    is_standalone: bool,
}

impl NetlinkEvents {
    /// Subscribes to events, with or without those about routes to peers.
    pub fn subscribe(is_standalone: bool) -> io::Result<Self> {
        let groups = if is_standalone { GROUPS } else { GROUPS | PEER_GROUPS };
        let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
        socket.socket_mut().bind(&SocketAddr::new(0, groups))?;
        Ok(Self { socket, is_standalone })
    }

    /// Waits for an event that concerns the pod network.
    pub async fn next(&mut self, native: &Native) -> Due {
        loop {
            let due = self.limited(read(&self.socket.recv_from_full().await, native));
            if due != Due::NOTHING {
                return due;
            }
        }
    }

    /// Merges all events that have arrived into `due`.
    pub fn drain(&mut self, native: &Native, mut due: Due) -> Due {
        for _ in 0..MAX_BATCH {
            let Some(message) = self.socket.recv_from_full().now_or_never() else { break };
            due = due.merge(read(&message, native));
        }
        self.limited(due)
    }

    fn limited(&self, due: Due) -> Due {
        Due { routes: due.routes && !self.is_standalone, ..due }
    }
}

/// The checks that follow from an event. A lost or unreadable event may have been any event.
fn read(received: &io::Result<(Vec<u8>, SocketAddr)>, native: &Native) -> Due {
    let Ok((bytes, _)) = received else { return Due::BOTH };
    if let Some(is_for_all_links) = settings(bytes) {
        return if is_for_all_links { Due::LINKS } else { Due::NOTHING };
    }
    let Ok(packet) = NetlinkMessage::<Message>::deserialize(bytes) else { return Due::BOTH };
    let NetlinkPayload::InnerMessage(message) = packet.payload else { return Due::NOTHING };
    let peer_routes = native.peer_routes();
    match message {
        Message::NewLink(link) | Message::DelLink(link) => {
            let Link { name, index, .. } = Link::of(&link);
            if name == native.bridge.name || is_veth(&name) {
                Due::LINKS
            } else if peer_routes.is_relevant_link(index, &name) {
                Due::ROUTES
            } else {
                Due::NOTHING
            }
        }
        Message::DelAddress(address) => match links::read_address(&address) {
            Some(_) => Due::BOTH,
            None => Due::LINKS,
        },
        // The kubelet sets the addresses of VXLAN devices itself.
        Message::NewAddress(address) => match links::read_address(&address) {
            Some((index, _)) if !peer_routes.is_vxlan_link(index) => Due::ROUTES,
            _ => Due::NOTHING,
        },
        Message::DelRoute(route) if native.bridge.is_unreachable_route(&route) => Due::LINKS,
        Message::NewRoute(route) if native.bridge.is_unreachable_route(&route) => Due::NOTHING,
        Message::DelRoute(route) if may_lead_to_peer(&route) => Due::ROUTES,
        Message::NewRoute(route) if may_lead_to_peer(&route) && !peer_routes.is_own_route(&route) => {
            Due::ROUTES
        }
        Message::DelNeighbour(gone) if peer_routes.is_vxlan_link(gone.header.ifindex) => Due::ROUTES,
        _ => Due::NOTHING,
    }
}

/// Whether the event changes settings of all links, such as forwarding. `None` for other events.
fn settings(bytes: &[u8]) -> Option<bool> {
    if bytes.get(4..6)? != RTM_NEWNETCONF.to_ne_bytes() {
        return None;
    }
    // The attributes follow the message header and the family, which is padded to four bytes.
    let mut rest = bytes.get(HEADER + 4..).unwrap_or_default();
    while let [a, b, c, d, ..] = *rest {
        if u16::from_ne_bytes([c, d]) == IFINDEX_ATTRIBUTE {
            return Some(rest.get(4..8) == Some(&ALL_LINKS.to_ne_bytes()));
        }
        let length = usize::from(u16::from_ne_bytes([a, b])).max(4).next_multiple_of(4);
        rest = rest.get(length..).unwrap_or_default();
    }
    Some(false)
}

/// Whether the route may lead to a peer node.
fn may_lead_to_peer(route: &RouteMessage) -> bool {
    let is_of_packets = matches!(
        route.header.kind,
        RouteType::Unicast | RouteType::BlackHole | RouteType::Unreachable | RouteType::Prohibit
    );
    is_of_packets && route.header.table == RouteHeader::RT_TABLE_MAIN && !links::is_between_neighbours(route)
}
