//! What is for pods of this node goes nowhere else: while the bridge is away, the machine would give it to its router, which ends
//! the connections of strangers, so a route behind all others refuses it.

use std::io;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::across::{OURS, our_routes};
use super::links;
use super::netlink::{Netlink, is};
use crate::network::nft::Family;

/// Metrics of these routes begin here: all others go before them.
const METRICS: u32 = 0xfe << 24;

/// The metric of a node's routes of this kind, by which it knows its own.
pub(super) fn metric(node: &str) -> u32 {
    let digest = Sha256::digest(node);
    METRICS + u32::from_be_bytes([0, digest[0], digest[1], digest[2]])
}

/// Refuses what is for a range and has no better way; whether that is new. Connections wait for a better one: to them, and to those
/// of others that are told, it is no end.
///
/// # Errors
/// The kernel's.
pub(super) fn lay(netlink: &mut Netlink, range: &IpNet, metric: u32) -> io::Result<bool> {
    match netlink.change(Message::NewRoute(route(range, metric)), NLM_F_CREATE | NLM_F_EXCL) {
        Err(error) if is(&error, Errno::EXIST) => Ok(false),
        done => done.map(|()| true),
    }
}

/// Refuses it no more.
///
/// # Errors
/// The kernel's.
pub(super) fn take(netlink: &mut Netlink, range: &IpNet, metric: u32) -> io::Result<()> {
    match netlink.change(Message::DelRoute(route(range, metric)), 0) {
        Err(error) if is(&error, Errno::SRCH) => Ok(()),
        done => done,
    }
}

/// Takes away all that a node has of these.
///
/// # Errors
/// The kernel's.
pub(super) fn take_all(netlink: &mut Netlink, metric: u32) -> io::Result<()> {
    let mut listing = Netlink::strict()?;
    for family in Family::BOTH {
        let ours = listing.list(our_routes(family), |message| match message {
            Message::NewRoute(route) => read(&route, metric),
            _ => None,
        });
        match ours {
            // A kernel without that family.
            Err(error) if is(&error, Errno::AFNOSUPPORT) || is(&error, Errno::OPNOTSUPP) => {}
            ours => ours?.iter().try_for_each(|range| take(netlink, range, metric))?,
        }
    }
    Ok(())
}

/// The range that a node with that metric has refused, if the message tells of one.
pub(super) fn read(message: &RouteMessage, metric: u32) -> Option<IpNet> {
    let header = &message.header;
    let is_ours = header.protocol == RouteProtocol::Other(OURS)
        && header.table == RouteHeader::RT_TABLE_MAIN
        && header.kind == RouteType::Unreachable
        && message.attributes.contains(&RouteAttribute::Priority(metric));
    links::to(message).filter(|_| is_ours)
}

fn route(range: &IpNet, metric: u32) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: links::family(range.addr()),
        destination_prefix_length: range.prefix_len(),
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Other(OURS),
        scope: RouteScope::Universe,
        kind: RouteType::Unreachable,
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Destination(links::route_address(range.network())),
        RouteAttribute::Priority(metric),
    ];
    message
}
