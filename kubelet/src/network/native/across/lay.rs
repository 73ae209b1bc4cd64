//! Routes as they are planned: what is missing is laid, what is not wanted any more goes, and there is no moment between.

use std::collections::BTreeMap;
use std::io;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage as Message;
use rustix::io::Errno;

use super::look;
use super::plan::{Hop, Plan};
use super::words::{self, Laid};
use crate::network::native::netlink::{Netlink, is};
use crate::network::nft::Family;

/// The routes that are there.
pub(super) type There = BTreeMap<IpNet, Laid>;

/// The routes that the node of that metric has laid.
pub(super) fn there(metric: u32) -> io::Result<There> {
    let mut netlink = Netlink::strict()?;
    let mut there = There::new();
    for family in Family::BOTH {
        let ours = netlink.list(words::our_routes(family), |message| match message {
            Message::NewRoute(route) => words::read_route(&route, metric),
            _ => None,
        });
        match ours {
            // A kernel without that family.
            Err(error) if is(&error, Errno::AFNOSUPPORT) || is(&error, Errno::OPNOTSUPP) => {}
            ours => there.extend(ours?),
        }
    }
    Ok(there)
}

/// The routes of a plan, as far as their tunnels are there.
pub(super) fn wanted(plan: &Plan, tunnels: &BTreeMap<Family, u32>) -> There {
    let laid = |hop: &Hop| match *hop {
        Hop::Direct { via, link } => Some(Laid { via, link, is_onlink: false }),
        Hop::Tunnel { under, via } => {
            tunnels.get(&under).map(|link| Laid { via, link: *link, is_onlink: true })
        }
    };
    plan.routes.iter().filter_map(|(range, hop)| Some((*range, laid(hop)?))).collect()
}

/// Lays a route, whatever was there of this node before.
///
/// # Errors
/// The kernel's, with what it was about.
pub(super) fn lay(netlink: &mut Netlink, range: IpNet, laid: &Laid, metric: u32) -> io::Result<()> {
    let route = Message::NewRoute(words::route(range, laid, metric));
    netlink.change(route, NLM_F_CREATE | NLM_F_REPLACE).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot lay the route to {range} via {}: {error}", laid.via))
    })
}

/// Takes a route away; one that is gone is fine.
///
/// # Errors
/// The kernel's, with what it was about.
pub(super) fn take(netlink: &mut Netlink, range: IpNet, laid: &Laid, metric: u32) -> io::Result<()> {
    match netlink.change(Message::DelRoute(words::route(range, laid, metric)), 0) {
        Err(error) if is(&error, Errno::SRCH) || is(&error, Errno::NODEV) => Ok(()),
        Err(error) => {
            let text = format!("cannot take the route to {range} away: {error}");
            Err(io::Error::new(error.kind(), text))
        }
        Ok(()) => Ok(()),
    }
}

/// Whether packets to a range go the way that was laid.
pub(super) fn is_gone_by(netlink: &mut Netlink, range: IpNet, laid: &Laid) -> io::Result<bool> {
    let answer = look::ask(netlink, range.network())?;
    Ok(answer.is_ok_and(|answer| answer.link == laid.link && answer.gateway == Some(laid.via)))
}
