//! The bridge of a node and the cables of its sandboxes: made, looked at, made good.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_packet_route::route::RouteMessage;
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::across::Across;
use super::links::{self, Link};
use super::netlink::{Changes, Netlink, is};
use super::record::Record;
use super::state::Key;
use super::{ipam, kernel, refused};
use crate::network::members::meet;
use crate::runtime::netns::Namespace;

/// What names of links of all nodes begin with; a name has 15 characters at most (IFNAMSIZ).
const NODE: &str = "coracle-";
const CABLE: &str = "cor";
/// What those begin with that are none of pods.
const OF_NODES: &str = "coracle";
/// Bytes of a packet where no way out of this machine says how many: Ethernet's.
const MTU: u32 = 1500;

/// What a bridge was without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It was not there, and so was nothing of it.
    All,
    /// It was switched off, which takes its routes away.
    Power,
    /// It had not all of its addresses.
    Addresses(Vec<IpNet>),
    /// What is for these ranges would have gone elsewhere without it.
    Refusals(Vec<IpNet>),
    /// Settings of the kernel by which packets are handed on, by their names.
    Settings(Vec<String>),
}

/// A node's bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    /// The name of the link.
    pub name: String,
    /// Its node's, which the link bears as its alias.
    node: String,
    /// Fixed, because a bridge takes the least of its ports otherwise, which pods would notice whenever one comes or goes.
    mac: [u8; 6],
    /// That of the routes that refuse what is for its pods while it is away.
    refusing: u32,
}

impl Bridge {
    /// The name that a node's bridge has: of its own, because several nodes may share a machine.
    pub fn name_of(node: &str) -> String {
        let digest = hex::encode(&Sha256::digest(node)[..3]);
        format!("{NODE}{digest}")
    }

    /// That of a node.
    pub fn new(node: &str) -> Self {
        let digest = Sha256::digest(node);
        // Locally administered, one station.
        Self {
            name: Self::name_of(node),
            node: node.to_owned(),
            mac: [0x02, digest[3], digest[4], digest[5], digest[6], digest[7]],
            refusing: refused::metric(node),
        }
    }

    /// The name of a sandbox's cable.
    pub fn cable(&self, key: &Key) -> String {
        let digest = Sha256::digest(format!("{} {} {}", self.name, key.uid, key.attempt));
        format!("{CABLE}{}", &hex::encode(digest)[..12])
    }

    /// Makes sure that it is there, says whose it is, is switched on, and has an address of each range, and that nobody else is given
    /// what is for these; what was missing of that.
    pub fn ensure(&self, netlink: &mut Netlink, ranges: &[IpNet]) -> io::Result<(Link, Vec<Missing>)> {
        let mut refusals = Vec::new();
        for range in ranges {
            if refused::lay(netlink, range, self.refusing)? {
                refusals.push(*range);
            }
        }
        let found = netlink.find(&self.name)?;
        let was_there = found.is_some();
        let link = match found {
            Some(link) => link,
            None => self.make(netlink)?,
        };
        // Whoever made it may have been killed before.
        let alias = format!("pods of node {}", self.node);
        if link.alias != alias {
            netlink.change(links::note(link.index, &alias), 0)?;
        }
        // Before it is on: no pod is to tell the host which way leads out.
        kernel::believe_no_router(&self.name)?;
        if !link.is_up {
            netlink.change(links::up(link.index), 0)?;
        }
        let there = netlink.addresses(link.index)?;
        let mut addresses = Vec::new();
        for range in ranges {
            let own = own(range)?;
            if !there.contains(&own) {
                netlink.change(links::address(link.index, own), NLM_F_CREATE | NLM_F_REPLACE)?;
                addresses.push(own);
            }
        }
        let has = |v4: bool| ranges.iter().any(|range| range.addr().is_ipv4() == v4);
        let mut settings = kernel::hand_on(&self.name, has(true), has(false))?;
        let mut missing = Vec::new();
        match (was_there, link.is_up) {
            (false, _) => missing.push(Missing::All),
            (true, false) => missing.push(Missing::Power),
            (true, true) if addresses.is_empty() => {}
            (true, true) => missing.push(Missing::Addresses(addresses)),
        }
        if !refusals.is_empty() {
            missing.push(Missing::Refusals(refusals));
        }
        // A new one has none of its own.
        settings.retain(|name| was_there || !name.contains(&self.name));
        if !settings.is_empty() {
            missing.push(Missing::Settings(settings));
        }
        Ok((link, missing))
    }

    /// Whether a route is one of those by which what is for its pods goes nowhere else.
    pub fn is_refusal(&self, route: &RouteMessage) -> bool {
        refused::read(route, self.refusing).is_some()
    }

    /// Takes it away, with all that stands behind it.
    pub fn remove(&self, netlink: &mut Netlink) -> io::Result<()> {
        netlink.cut(&self.name)?;
        refused::take_all(netlink, self.refusing)
    }

    /// How many cables are plugged into it, once those have gone that are on their way: the kernel takes a network down some time after
    /// the last process that was in it. Blocks, while there are any, for as long as `patience` at most.
    pub fn plugged(&self, netlink: &mut Netlink, patience: Duration) -> io::Result<usize> {
        // From before the first look, so that no change goes by.
        let mut changes = Changes::of_links()?;
        let end = Instant::now() + patience;
        loop {
            let Some(bridge) = netlink.find(&self.name)? else { return Ok(0) };
            let is_port = |link: &Link| link.bridge == Some(bridge.index);
            let ports = netlink.list(links::get(None), |message| Link::read(message).filter(is_port))?;
            let left = end.saturating_duration_since(Instant::now());
            if ports.is_empty() || left.is_zero() {
                return Ok(ports.len());
            }
            changes.wait(left)?;
        }
    }

    /// Takes its address of a range away, by which packets for that range came here.
    pub fn let_go(&self, netlink: &mut Netlink, range: &IpNet) -> io::Result<()> {
        refused::take(netlink, range, self.refusing)?;
        let Some(link) = netlink.find(&self.name)? else { return Ok(()) };
        match netlink.change(links::without_address(link.index, own(range)?), 0) {
            Err(error) if is(&error, Errno::ADDRNOTAVAIL) => Ok(()),
            done => done,
        }
    }

    fn make(&self, netlink: &mut Netlink) -> io::Result<Link> {
        let mtu = mtu_outwards(netlink)?;
        netlink.change(links::bridge(&self.name, self.mac, mtu), NLM_F_CREATE | NLM_F_EXCL)?;
        let made = netlink.find(&self.name)?;
        made.ok_or_else(|| io::Error::other("the bridge went as it was made"))
    }

    /// Lays the cable of a sandbox into that namespace; all of it or nothing.
    pub fn lay(
        &self,
        netlink: &mut Netlink,
        bridge: &Link,
        ranges: &[IpNet],
        (key, record): (&Key, &Record),
        namespace: &Namespace,
    ) -> io::Result<()> {
        let name = self.cable(key);
        let primary =
            record.addresses.first().ok_or_else(|| io::Error::other("the sandbox has no address"))?;
        // What is there of a try that was cut off.
        netlink.cut(&name)?;
        let cable = links::cable(&name, namespace.descriptor(), links::mac(*primary), bridge.mtu);
        netlink.change(cable, NLM_F_CREATE | NLM_F_EXCL)?;
        let laid = namespace
            .within(|| set_up_inside(ranges, record))
            .and_then(|()| netlink.find(&name)?.ok_or_else(|| io::ErrorKind::NotFound.into()))
            .and_then(|ours| self.plug_in(netlink, bridge, &ours));
        laid.inspect_err(|_| drop(netlink.cut(&name)))
    }

    /// Plugs a cable into the bridge, whoever took it out or switched it off.
    pub fn plug_in(&self, netlink: &mut Netlink, bridge: &Link, cable: &Link) -> io::Result<()> {
        netlink.change(links::plug(cable.index, bridge.index), 0)?;
        netlink.change(links::hairpin(cable.index), 0)?;
        netlink.change(links::up(cable.index), 0)
    }

    /// All cables that hang on the bridge or bear a name that ours bear, by name.
    pub fn cables(&self, netlink: &mut Netlink, bridge: &Link) -> io::Result<HashMap<String, Link>> {
        let is_ours = |link: &Link| is_cable(&link.name) && link.bridge.is_none_or(|at| at == bridge.index);
        let named = |link: Link| (link.name.clone(), link);
        let ours =
            netlink.list(links::get(None), |message| Link::read(message).filter(is_ours).map(named))?;
        Ok(ours.into_iter().collect())
    }
}

fn set_up_inside(ranges: &[IpNet], record: &Record) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let eth0 = netlink
        .find(links::IN_POD)?
        .ok_or_else(|| io::Error::other(format!("the pod has no {}", links::IN_POD)))?;
    kernel::believe_no_router(links::IN_POD)?;
    if record.addresses.iter().any(IpAddr::is_ipv6) {
        // `::1` as well.
        ["lo", links::IN_POD].into_iter().try_for_each(kernel::speak_v6)?;
    }
    netlink.change(links::up(eth0.index), 0)?;
    for ip in &record.addresses {
        let range = ranges.iter().find(|range| range.contains(ip)).ok_or_else(|| {
            io::Error::other(format!("its address {ip} is of no range of this node; see --pod-cidr"))
        })?;
        let own = IpNet::new(*ip, range.prefix_len()).map_err(io::Error::other)?;
        netlink.change(links::address(eth0.index, own), NLM_F_CREATE | NLM_F_REPLACE)?;
        let route = links::default_route(ipam::gateway(*range), eth0.index);
        netlink.change(route, NLM_F_CREATE | NLM_F_REPLACE)?;
    }
    Ok(())
}

/// The bridge's address of a range.
fn own(range: &IpNet) -> io::Result<IpNet> {
    IpNet::new(ipam::gateway(*range), range.prefix_len()).map_err(io::Error::other)
}

/// Whether a link of that name may be a cable of ours, or another node's here.
pub(super) fn is_cable(name: &str) -> bool {
    name.starts_with(CABLE) && !name.starts_with(OF_NODES)
}

/// What of these ranges is in use here by something else than the node's own links and, unless `laid` counts too, the routes it has
/// laid to other nodes: the first such route, and the link it goes over (`10.0.0.0/8 over eth0`), with the node that it is of.
pub(super) fn overlap(
    netlink: &mut Netlink,
    ranges: &[IpNet],
    across: &Across,
    laid: Laid,
) -> io::Result<Option<String>> {
    let all = netlink.list(links::get(None), Link::read)?;
    let link = |index: u32| all.iter().find(|link| link.index == index);
    for range in ranges {
        let met = netlink.list(links::routes(range.addr()), |message| {
            let Message::NewRoute(route) = message else { return None };
            let (to, by) = links::destination(&route)?;
            let link = by.and_then(link);
            let is_own = link.is_some_and(|link| across.is_of_node(&link.name))
                || laid == Laid::Apart && across.is_laid(&route);
            let whose = |link: &Link| match link.name.starts_with(OF_NODES) && !link.alias.is_empty() {
                true => format!(" over {} ({})", link.name, link.alias),
                false => format!(" over {}", link.name),
            };
            let over = link.map_or_else(String::new, whose);
            (to.prefix_len() > 0 && meet(&to, range) && !is_own).then(|| format!("{to}{over}"))
        })?;
        if let Some(route) = met.into_iter().next() {
            return Ok(Some(route));
        }
    }
    Ok(None)
}

/// Whether routes that the node has laid to others are a use of their ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Laid {
    /// They are.
    Too,
    /// They go when the range is the node's own.
    Apart,
}

/// The packet size of the way out of this machine, which pods' packets take too.
fn mtu_outwards(netlink: &mut Netlink) -> io::Result<u32> {
    let everywhere = std::net::Ipv4Addr::UNSPECIFIED.into();
    let default = netlink.list(links::routes(everywhere), |message| match message {
        Message::NewRoute(route) => links::default_link(&route),
        _ => None,
    })?;
    let Some(index) = default.into_iter().next() else { return Ok(MTU) };
    let found =
        netlink.list(links::get(None), |message| Link::read(message).filter(|link| link.index == index))?;
    Ok(found.into_iter().next().map_or(MTU, |link| link.mtu))
}
