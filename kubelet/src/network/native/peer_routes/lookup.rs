//! Looks up in the kernel how this machine reaches the addresses of peer nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::link::LinkFlags;
use rustix::io::Errno;

use super::conflicts::usable_addresses;
use super::messages::{self, RouteLookup};
use super::plan::{Path, Reachability};
use crate::network::Member;
use crate::network::native::bridge::Bridge;
use crate::network::native::links::{self, Link};
use crate::network::native::netlink::{Netlink, is};

/// Errors of the kernel for unreachable destinations.
const UNREACHABLE: [Errno; 6] = [
    Errno::NETUNREACH,
    Errno::HOSTUNREACH,
    Errno::ACCESS,
    Errno::INVAL,
    // The kernel lacks the address family.
    Errno::AFNOSUPPORT,
    Errno::OPNOTSUPP,
];

/// Result of the lookups.
pub(super) struct Lookup {
    /// How each address is reached.
    pub reachability: BTreeMap<IpAddr, Reachability>,
    /// The names of the nodes that run on this machine.
    pub local_nodes: BTreeSet<String>,
}

/// Looks up all addresses, with one request per address and per egress link.
pub(super) fn look_up(netlink: &mut Netlink, others: &[Member]) -> io::Result<Lookup> {
    let mut lookup = Lookup { reachability: BTreeMap::new(), local_nodes: BTreeSet::new() };
    let mut links = BTreeMap::new();
    for member in others.iter().filter(|member| !member.ranges.is_empty()) {
        for address in usable_addresses(member) {
            let entry = match lookup.reachability.get(&address) {
                Some(entry) => entry,
                None => {
                    let found = reachability_of(netlink, address, &mut links)?;
                    lookup.reachability.entry(address).or_insert(found)
                }
            };
            if *entry == Reachability::Local && netlink.find(&Bridge::name_of(&member.name))?.is_some() {
                lookup.local_nodes.insert(member.name.clone());
            }
        }
    }
    Ok(lookup)
}

/// The kernel's route to an address, or the reason why there is none.
pub(super) fn route_to(netlink: &mut Netlink, to: IpAddr) -> io::Result<Result<RouteLookup, String>> {
    let answered = netlink.one(messages::route_lookup(to), |message| match message {
        Message::NewRoute(route) => Some(messages::read_route_lookup(&route)),
        _ => None,
    });
    match answered {
        Ok(answer) => Ok(answer.flatten().ok_or_else(|| "a route rejects packets to it".to_owned())),
        Err(error) if UNREACHABLE.iter().any(|reason| is(&error, *reason)) => {
            Ok(Err(match error.raw_os_error() {
                Some(number) => Errno::from_raw_os_error(number).to_string(),
                None => error.to_string(),
            }))
        }
        Err(error) => Err(error),
    }
}

fn reachability_of(
    netlink: &mut Netlink,
    to: IpAddr,
    links: &mut BTreeMap<u32, (u32, bool)>,
) -> io::Result<Reachability> {
    let answer = match route_to(netlink, to)? {
        Ok(answer) if answer.is_local => return Ok(Reachability::Local),
        Ok(answer) => answer,
        Err(why) => return Ok(Reachability::None(why)),
    };
    let (mtu, is_shared) = match links.get(&answer.link) {
        Some(known) => *known,
        None => {
            let found = link_properties(netlink, answer.link)?;
            *links.entry(answer.link).or_insert(found)
        }
    };
    let path = Path { link: answer.link, mtu, from: answer.from, gateway: answer.gateway };
    Ok(if answer.has_hop || !is_shared {
        Reachability::Routed(path)
    } else {
        Reachability::SameSegment(path)
    })
}

/// The MTU of a link, and whether it resolves neighbours. A link that does not, such as a point-to-point tunnel,
/// cannot carry packets for pod addresses.
fn link_properties(netlink: &mut Netlink, index: u32) -> io::Result<(u32, bool)> {
    let found = netlink.one(links::get_by_index(index), |message| match message {
        Message::NewLink(link) => {
            let alone = LinkFlags::Noarp | LinkFlags::Pointopoint;
            Some((Link::of(&link).mtu, !link.header.flags.intersects(alone)))
        }
        _ => None,
    });
    match found {
        Ok(found) => Ok(found.unwrap_or((0, true))),
        // The link was removed meanwhile; that event triggers another sync.
        Err(error) if is(&error, Errno::NODEV) => Ok((0, true)),
        Err(error) => Err(error),
    }
}
