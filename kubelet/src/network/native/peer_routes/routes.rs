//! Applies the planned routes without a gap: new routes replace old ones, and obsolete routes are removed last.

use std::collections::BTreeMap;
use std::io;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage as Message;
use rustix::io::Errno;

use super::lookup;
use super::messages::{self, InstalledRoute};
use super::plan::{Hop, Plan};
use crate::network::native::netlink::{Netlink, is};
use crate::network::nft::Family;

/// Routes by pod CIDR.
pub(super) type Routes = BTreeMap<IpNet, InstalledRoute>;

/// The installed routes of the node with this metric.
pub(super) fn installed(metric: u32) -> io::Result<Routes> {
    let mut netlink = Netlink::strict()?;
    let mut installed = Routes::new();
    for family in Family::BOTH {
        let ours = netlink.list(messages::our_routes(family), |message| match message {
            Message::NewRoute(message) => messages::read_route(&message, metric),
            _ => None,
        });
        match ours {
            // The kernel lacks the address family.
            Err(error) if is(&error, Errno::AFNOSUPPORT) || is(&error, Errno::OPNOTSUPP) => {}
            ours => installed.extend(ours?),
        }
    }
    Ok(installed)
}

/// The planned routes whose VXLAN device exists.
pub(super) fn wanted(plan: &Plan, tunnels: &BTreeMap<Family, u32>) -> Routes {
    let route = |hop: &Hop| match *hop {
        Hop::Direct { via, link } => Some(InstalledRoute { via, link, is_onlink: false }),
        Hop::Vxlan { underlay, via } => {
            tunnels.get(&underlay).map(|link| InstalledRoute { via, link: *link, is_onlink: true })
        }
    };
    plan.routes.iter().filter_map(|(range, hop)| Some((*range, route(hop)?))).collect()
}

/// Adds or replaces a route.
///
/// # Errors
/// If the kernel rejects the route. The error names the route.
pub(super) fn add(
    netlink: &mut Netlink,
    range: IpNet,
    route: &InstalledRoute,
    metric: u32,
) -> io::Result<()> {
    let message = Message::NewRoute(messages::route(range, route, metric));
    netlink.change(message, NLM_F_CREATE | NLM_F_REPLACE).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot add the route to {range} via {}: {error}", route.via))
    })
}

/// Removes a route, if it exists.
///
/// # Errors
/// If the kernel rejects the route. The error names the route.
pub(super) fn remove(
    netlink: &mut Netlink,
    range: IpNet,
    route: &InstalledRoute,
    metric: u32,
) -> io::Result<()> {
    match netlink.change(Message::DelRoute(messages::route(range, route, metric)), 0) {
        Err(error) if is(&error, Errno::SRCH) || is(&error, Errno::NODEV) => Ok(()),
        Err(error) => {
            let text = format!("cannot remove the route to {range}: {error}");
            Err(io::Error::new(error.kind(), text))
        }
        Ok(()) => Ok(()),
    }
}

/// Whether the kernel uses the route for the pod CIDR.
pub(super) fn is_effective(netlink: &mut Netlink, range: IpNet, route: &InstalledRoute) -> io::Result<bool> {
    let answer = lookup::route_to(netlink, range.network())?;
    Ok(answer.is_ok_and(|answer| answer.link == route.link && answer.gateway == Some(route.via)))
}
