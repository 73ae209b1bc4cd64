//! What the kernel says of the ways to other nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::link::LinkFlags;
use rustix::io::Errno;

use super::claims::counted;
use super::plan::{Course, Way};
use super::words::{self, Answer};
use crate::network::members::Member;
use crate::network::native::bridge::Bridge;
use crate::network::native::links::{self, Link};
use crate::network::native::netlink::{Netlink, is};

/// How the kernel says that it sends nothing there.
const NO_WAY: [Errno; 6] = [
    Errno::NETUNREACH,
    Errno::HOSTUNREACH,
    Errno::ACCESS,
    Errno::INVAL,
    // A kernel without that family.
    Errno::AFNOSUPPORT,
    Errno::OPNOTSUPP,
];

/// What there is to know of where others are.
pub(super) struct Sight {
    /// The ways to their addresses.
    pub ways: BTreeMap<IpAddr, Way>,
    /// Those of them that are on this machine.
    pub here: BTreeSet<String>,
}

/// Asks one question an address, and one a link that leads there.
pub(super) fn sight(netlink: &mut Netlink, others: &[Member]) -> io::Result<Sight> {
    let mut sight = Sight { ways: BTreeMap::new(), here: BTreeSet::new() };
    let mut links = BTreeMap::new();
    for member in others.iter().filter(|member| !member.ranges.is_empty()) {
        for address in counted(member) {
            let way = match sight.ways.get(&address) {
                Some(way) => way,
                None => {
                    let way = way(netlink, address, &mut links)?;
                    sight.ways.entry(address).or_insert(way)
                }
            };
            if *way == Way::Here && netlink.find(&Bridge::name_of(&member.name))?.is_some() {
                sight.here.insert(member.name.clone());
            }
        }
    }
    Ok(sight)
}

/// The kernel's answer, or why it has none.
pub(super) fn ask(netlink: &mut Netlink, to: IpAddr) -> io::Result<Result<Answer, String>> {
    let answered = netlink.one(words::way(to), |message| match message {
        Message::NewRoute(route) => Some(words::read_way(&route)),
        _ => None,
    });
    match answered {
        Ok(answer) => Ok(answer.flatten().ok_or_else(|| "a route refuses it".to_owned())),
        Err(error) if NO_WAY.iter().any(|reason| is(&error, *reason)) => {
            Ok(Err(match error.raw_os_error() {
                Some(number) => Errno::from_raw_os_error(number).to_string(),
                None => error.to_string(),
            }))
        }
        Err(error) => Err(error),
    }
}

fn way(netlink: &mut Netlink, to: IpAddr, links: &mut BTreeMap<u32, (u32, bool)>) -> io::Result<Way> {
    let answer = match ask(netlink, to)? {
        Ok(answer) if answer.is_local => return Ok(Way::Here),
        Ok(answer) => answer,
        Err(why) => return Ok(Way::None(why)),
    };
    let (mtu, is_shared) = match links.get(&answer.link) {
        Some(known) => *known,
        None => {
            let found = link(netlink, answer.link)?;
            *links.entry(answer.link).or_insert(found)
        }
    };
    let course = Course { link: answer.link, mtu, from: answer.from, gateway: answer.gateway };
    Ok(if answer.has_hop || !is_shared { Way::Router(course) } else { Way::Segment(course) })
}

/// The size of its packets, and whether what is on it is found by asking around: what is not, as the other end of somebody's
/// tunnel, takes packets for no address but its own.
fn link(netlink: &mut Netlink, index: u32) -> io::Result<(u32, bool)> {
    let found = netlink.one(links::numbered(index), |message| match message {
        Message::NewLink(link) => {
            let alone = LinkFlags::Noarp | LinkFlags::Pointopoint;
            Some((Link::of(&link).mtu, !link.header.flags.intersects(alone)))
        }
        _ => None,
    });
    match found {
        Ok(found) => Ok(found.unwrap_or((0, true))),
        // It went in between: that is heard, and looked at again.
        Err(error) if is(&error, Errno::NODEV) => Ok((0, true)),
        Err(error) => Err(error),
    }
}
