//! Unreachable routes for the node's pod CIDRs. While the bridge is missing, the kernel would otherwise send packets
//! for pods to the default router. The answers of that router could end connections.

use std::io;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::links;
use super::netlink::{Netlink, is};
use super::peer_routes::{ROUTE_PROTOCOL, our_routes};
use crate::network::nft::Family;

/// Base of the metrics of these routes. It is so high that all other routes take precedence.
const FIRST_METRIC: u32 = 0xfe << 24;

/// The metric of a node's unreachable routes. It identifies them.
pub(super) fn metric(node: &str) -> u32 {
    let digest = Sha256::digest(node);
    FIRST_METRIC + u32::from_be_bytes([0, digest[0], digest[1], digest[2]])
}

/// Adds an unreachable route for a pod CIDR. Returns whether it was missing. Connections survive the resulting
/// errors, and continue when a better route appears.
///
/// # Errors
/// If the kernel rejects the request.
pub(super) fn add(netlink: &mut Netlink, range: &IpNet, metric: u32) -> io::Result<bool> {
    match netlink.change(Message::NewRoute(route(range, metric)), NLM_F_CREATE | NLM_F_EXCL) {
        Err(error) if is(&error, Errno::EXIST) => Ok(false),
        done => done.map(|()| true),
    }
}

/// Removes the unreachable route of a pod CIDR.
///
/// # Errors
/// If the kernel rejects the request.
pub(super) fn remove(netlink: &mut Netlink, range: &IpNet, metric: u32) -> io::Result<()> {
    match netlink.change(Message::DelRoute(route(range, metric)), 0) {
        Err(error) if is(&error, Errno::SRCH) => Ok(()),
        done => done,
    }
}

/// Removes all unreachable routes with this metric.
///
/// # Errors
/// If the kernel rejects the request.
pub(super) fn remove_all(netlink: &mut Netlink, metric: u32) -> io::Result<()> {
    let mut listing = Netlink::strict()?;
    for family in Family::BOTH {
        let ours = listing.list(our_routes(family), |message| match message {
            Message::NewRoute(route) => read(&route, metric),
            _ => None,
        });
        match ours {
            // The kernel lacks the address family.
            Err(error) if is(&error, Errno::AFNOSUPPORT) || is(&error, Errno::OPNOTSUPP) => {}
            ours => ours?.iter().try_for_each(|range| remove(netlink, range, metric))?,
        }
    }
    Ok(())
}

/// The pod CIDR of an unreachable route, if the route has this metric.
pub(super) fn read(message: &RouteMessage, metric: u32) -> Option<IpNet> {
    let header = &message.header;
    let is_ours = header.protocol == RouteProtocol::Other(ROUTE_PROTOCOL)
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
        protocol: RouteProtocol::Other(ROUTE_PROTOCOL),
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
