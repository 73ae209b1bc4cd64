//! What the kernel tells of links, addresses, routes, neighbours and settings, as what is to be looked at again.

use std::io;

use futures_util::FutureExt as _;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::route::{RouteHeader, RouteMessage, RouteType};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket as _, AsyncSocketExt as _, SocketAddr, TokioSocket};

use super::Native;
use super::bridge::is_cable;
use super::links::{self, Link};
use super::netlink::{HEADER, LINKS};

/// What a node hears of that belongs to no cluster, and what one does besides that has ways to others: `RTMGRP_*` of rtnetlink.
const ALONE: u32 =
    LINKS | IPV4_ADDRESS | IPV6_ADDRESS | IPV4_ROUTE | IPV6_ROUTE | IPV4_SETTINGS | IPV6_SETTINGS;
const AMONG_OTHERS: u32 = NEIGHBOUR;
const NEIGHBOUR: u32 = 0x4;
const IPV4_ADDRESS: u32 = 0x10;
const IPV4_ROUTE: u32 = 0x40;
const IPV6_ADDRESS: u32 = 0x100;
const IPV6_ROUTE: u32 = 0x400;
/// `RTNLGRP_IPV4_NETCONF` and `RTNLGRP_IPV6_NETCONF`.
const IPV4_SETTINGS: u32 = 1 << 23;
const IPV6_SETTINGS: u32 = 1 << 24;
/// `RTM_NEWNETCONF`, which the library does not know; its attribute `NETCONFA_IFINDEX`, and what that is for all links.
const NEW_SETTINGS: u16 = 80;
const OF_LINK: u16 = 1;
const OF_ALL: i32 = -1;
/// News that are taken together at most; more than that are looked at in turn.
const MOST_AT_ONCE: usize = 10_000;

/// What is to be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// The bridge and the cables.
    pub links: bool,
    /// The rules for packets.
    pub rules: bool,
    /// The ways to other nodes.
    pub ways: bool,
}

impl Due {
    /// Everything.
    pub const ALL: Self = Self { links: true, rules: true, ways: true };
    const NOTHING: Self = Self { links: false, rules: false, ways: false };
    const LINKS: Self = Self { links: true, rules: false, ways: false };
    const WAYS: Self = Self { links: false, rules: false, ways: true };
    const BOTH: Self = Self { links: true, rules: false, ways: true };

    fn and(self, other: Self) -> Self {
        Self {
            links: self.links || other.links,
            rules: self.rules || other.rules,
            ways: self.ways || other.ways,
        }
    }
}

/// Hears of changes in the network namespace that the thread was in when it began.
pub(super) struct News {
    socket: TokioSocket,
    /// Nothing that is heard concerns ways to others.
    is_alone: bool,
}

impl News {
    /// Begins to listen, as a node that belongs to no cluster or as one that does.
    pub fn listen(is_alone: bool) -> io::Result<Self> {
        let groups = if is_alone { ALONE } else { ALONE | AMONG_OTHERS };
        let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
        socket.socket_mut().bind(&SocketAddr::new(0, groups))?;
        Ok(Self { socket, is_alone })
    }

    /// Waits for something that concerns the node's network.
    pub async fn heard(&mut self, native: &Native) -> Due {
        loop {
            let due = self.limited(read(&self.socket.recv_from_full().await, native));
            if due != Due::NOTHING {
                return due;
            }
        }
    }

    /// Whatever else has been told by now, with what was due before.
    pub fn all_heard(&mut self, native: &Native, mut due: Due) -> Due {
        for _ in 0..MOST_AT_ONCE {
            let Some(heard) = self.socket.recv_from_full().now_or_never() else { break };
            due = due.and(read(&heard, native));
        }
        self.limited(due)
    }

    fn limited(&self, due: Due) -> Due {
        Due { ways: due.ways && !self.is_alone, ..due }
    }
}

/// What follows from something that was told; what cannot be understood or was lost may be anything.
fn read(heard: &io::Result<(Vec<u8>, SocketAddr)>, native: &Native) -> Due {
    let Ok((bytes, _)) = heard else { return Due::BOTH };
    if let Some(is_of_all) = settings(bytes) {
        return if is_of_all { Due::LINKS } else { Due::NOTHING };
    }
    let Ok(packet) = NetlinkMessage::<Message>::deserialize(bytes) else { return Due::BOTH };
    let NetlinkPayload::InnerMessage(message) = packet.payload else { return Due::NOTHING };
    let across = native.across();
    match message {
        Message::NewLink(link) | Message::DelLink(link) => {
            let Link { name, index, .. } = Link::of(&link);
            if name == native.bridge.name || is_cable(&name) {
                Due::LINKS
            } else if across.is_concerned(index, &name) {
                Due::WAYS
            } else {
                Due::NOTHING
            }
        }
        Message::DelAddress(address) => match links::read_address(&address) {
            Some(_) => Due::BOTH,
            None => Due::LINKS,
        },
        // The tunnels are given theirs by us.
        Message::NewAddress(address) => match links::read_address(&address) {
            Some((index, _)) if !across.is_tunnel(index) => Due::WAYS,
            _ => Due::NOTHING,
        },
        Message::DelRoute(route) if native.bridge.is_refusal(&route) => Due::LINKS,
        Message::NewRoute(route) if native.bridge.is_refusal(&route) => Due::NOTHING,
        Message::DelRoute(route) if is_way(&route) => Due::WAYS,
        Message::NewRoute(route) if is_way(&route) && !across.is_laid(&route) => Due::WAYS,
        Message::DelNeighbour(gone) if across.is_tunnel(gone.header.ifindex) => Due::WAYS,
        _ => Due::NOTHING,
    }
}

/// Whether settings of all links have changed, as whether packets are handed on; `None` for news of something else.
fn settings(bytes: &[u8]) -> Option<bool> {
    if bytes.get(4..6)? != NEW_SETTINGS.to_ne_bytes() {
        return None;
    }
    // Behind the header of the message, and a family that is filled up to four bytes.
    let mut rest = bytes.get(HEADER + 4..).unwrap_or_default();
    while let [a, b, c, d, ..] = *rest {
        if u16::from_ne_bytes([c, d]) == OF_LINK {
            return Some(rest.get(4..8) == Some(&OF_ALL.to_ne_bytes()));
        }
        let length = usize::from(u16::from_ne_bytes([a, b])).max(4).next_multiple_of(4);
        rest = rest.get(length..).unwrap_or_default();
    }
    Some(false)
}

/// Whether a route may lead to another node.
fn is_way(route: &RouteMessage) -> bool {
    let is_of_packets = matches!(
        route.header.kind,
        RouteType::Unicast | RouteType::BlackHole | RouteType::Unreachable | RouteType::Prohibit
    );
    is_of_packets && route.header.table == RouteHeader::RT_TABLE_MAIN && !links::is_between_neighbours(route)
}
