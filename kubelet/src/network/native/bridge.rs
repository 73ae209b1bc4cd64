//! The bridge of a node and the cables of its sandboxes: made, looked at, made good.

use std::collections::HashMap;
use std::io;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage as Message;
use sha2::{Digest as _, Sha256};

use super::links::{self, Link};
use super::netlink::Netlink;
use super::netns::Namespace;
use super::record::Record;
use super::state::Key;
use super::{ipam, kernel};

/// What names of links of all nodes begin with; a name has 15 characters at most (IFNAMSIZ).
const NODE: &str = "coracle-";
const CABLE: &str = "cor";
/// Bytes of a packet where no way out of this machine says how many: Ethernet's.
const MTU: u32 = 1500;

/// A node's bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    /// The name of the link.
    pub name: String,
    /// Its node's, which the link bears as its alias.
    node: String,
    /// Fixed, because a bridge takes the least of its ports otherwise, which pods would notice whenever one comes or goes.
    mac: [u8; 6],
    ranges: Vec<IpNet>,
}

impl Bridge {
    /// The name that a node's bridge has: of its own, because several nodes may share a machine.
    pub fn name_of(node: &str) -> String {
        let digest = hex::encode(&Sha256::digest(node)[..3]);
        format!("{NODE}{digest}")
    }

    /// That of a node.
    pub fn new(node: &str, ranges: Vec<IpNet>) -> Self {
        let digest = Sha256::digest(node);
        // Locally administered, one station.
        Self {
            name: Self::name_of(node),
            node: node.to_owned(),
            mac: [0x02, digest[3], digest[4], digest[5], digest[6], digest[7]],
            ranges,
        }
    }

    /// The name of a sandbox's cable.
    pub fn cable(&self, key: &Key) -> String {
        let digest = Sha256::digest(format!("{} {} {}", self.name, key.uid, key.attempt));
        format!("{CABLE}{}", &hex::encode(digest)[..12])
    }

    /// Makes sure that it is there, switched on, and has its addresses; whether it was missing.
    pub fn ensure(&self, netlink: &mut Netlink) -> io::Result<(Link, bool)> {
        let there = find(netlink, &self.name)?;
        let is_new = there.is_none();
        let link = match there {
            Some(link) => link,
            None => self.make(netlink)?,
        };
        if !link.is_up {
            netlink.change(links::up(link.index), 0)?;
        }
        for range in &self.ranges {
            let own = IpNet::new(ipam::gateway(*range), range.prefix_len()).map_err(io::Error::other)?;
            netlink.change(links::address(link.index, own), NLM_F_CREATE | NLM_F_REPLACE)?;
        }
        let has = |v4: bool| self.ranges.iter().any(|range| range.addr().is_ipv4() == v4);
        kernel::hand_on(&self.name, has(true), has(false))?;
        Ok((link, is_new))
    }

    fn make(&self, netlink: &mut Netlink) -> io::Result<Link> {
        let mtu = mtu_outwards(netlink)?;
        netlink.change(links::bridge(&self.name, self.mac, mtu), NLM_F_CREATE | NLM_F_EXCL)?;
        let made = find(netlink, &self.name)?;
        let made = made.ok_or_else(|| io::Error::other("the bridge went as it was made"))?;
        netlink.change(links::note(made.index, &format!("pods of node {}", self.node)), 0)?;
        // Before it is on: no pod is to tell the host which way leads out.
        kernel::believe_no_router(&self.name)?;
        Ok(made)
    }

    /// Lays the cable of a sandbox into that namespace; all of it or nothing.
    pub fn lay(
        &self,
        netlink: &mut Netlink,
        bridge: &Link,
        key: &Key,
        record: &Record,
        namespace: &Namespace,
    ) -> io::Result<()> {
        let name = self.cable(key);
        let primary =
            record.addresses.first().ok_or_else(|| io::Error::other("the sandbox has no address"))?;
        // What is there of a try that was cut off.
        self.cut(netlink, &name)?;
        let cable = links::cable(&name, namespace.descriptor(), links::mac(*primary), bridge.mtu);
        netlink.change(cable, NLM_F_CREATE | NLM_F_EXCL)?;
        let laid = namespace
            .within(|| self.set_up_inside(record))
            .and_then(|()| find(netlink, &name)?.ok_or_else(|| io::ErrorKind::NotFound.into()))
            .and_then(|ours| self.plug_in(netlink, bridge, &ours));
        laid.inspect_err(|_| drop(self.cut(netlink, &name)))
    }

    fn set_up_inside(&self, record: &Record) -> io::Result<()> {
        let mut netlink = Netlink::open()?;
        let eth0 = find(&mut netlink, links::IN_POD)?
            .ok_or_else(|| io::Error::other(format!("the pod has no {}", links::IN_POD)))?;
        kernel::believe_no_router(links::IN_POD)?;
        netlink.change(links::up(eth0.index), 0)?;
        for ip in &record.addresses {
            let range = self.ranges.iter().find(|range| range.contains(ip)).ok_or_else(|| {
                io::Error::other(format!("its address {ip} is of no range of this node; see --pod-cidr"))
            })?;
            let own = IpNet::new(*ip, range.prefix_len()).map_err(io::Error::other)?;
            netlink.change(links::address(eth0.index, own), NLM_F_CREATE | NLM_F_REPLACE)?;
            let route = links::default_route(ipam::gateway(*range), eth0.index);
            netlink.change(route, NLM_F_CREATE | NLM_F_REPLACE)?;
        }
        Ok(())
    }

    /// Plugs a cable into the bridge, whoever took it out or switched it off.
    pub fn plug_in(&self, netlink: &mut Netlink, bridge: &Link, cable: &Link) -> io::Result<()> {
        netlink.change(links::plug(cable.index, bridge.index), 0)?;
        netlink.change(links::hairpin(cable.index), 0)?;
        netlink.change(links::up(cable.index), 0)
    }

    /// Takes a cable away; one that is not there is fine.
    pub fn cut(&self, netlink: &mut Netlink, name: &str) -> io::Result<()> {
        match find(netlink, name)? {
            Some(link) => gone_is_fine(netlink.change(links::remove(link.index), 0)),
            None => Ok(()),
        }
    }

    /// The cable of that name, if there is one.
    pub fn find(&self, netlink: &mut Netlink, name: &str) -> io::Result<Option<Link>> {
        find(netlink, name)
    }

    /// All cables that hang on the bridge or bear a name that ours bear, by name.
    pub fn cables(&self, netlink: &mut Netlink, bridge: &Link) -> io::Result<HashMap<String, Link>> {
        let is_ours = |link: &Link| is_cable(&link.name) && link.bridge.is_none_or(|at| at == bridge.index);
        let named = |link: Link| (link.name.clone(), link);
        let ours =
            netlink.list(links::get(None), |message| Link::read(message).filter(is_ours).map(named))?;
        Ok(ours.into_iter().collect())
    }

    /// Takes the bridge away.
    pub fn remove(&self, netlink: &mut Netlink) -> io::Result<()> {
        self.cut(netlink, &self.name)
    }
}

/// Whether a link of that name may be a cable of ours, or another node's here.
pub(super) fn is_cable(name: &str) -> bool {
    name.starts_with(CABLE) && !name.starts_with(NODE)
}

/// What of these ranges is in use here by something else than the bridge of that name: the first such route.
pub(super) fn overlap(netlink: &mut Netlink, ranges: &[IpNet], bridge: &str) -> io::Result<Option<IpNet>> {
    let own = find(netlink, bridge)?.map(|link| link.index);
    for range in ranges {
        let met = netlink.list(links::routes(range.addr()), |message| {
            let Message::NewRoute(route) = message else { return None };
            let (to, by) = links::destination(&route)?;
            let meets = to.contains(range) || range.contains(&to);
            (to.prefix_len() > 0 && meets && (by.is_none() || by != own)).then_some(to)
        })?;
        if let Some(route) = met.into_iter().next() {
            return Ok(Some(route));
        }
    }
    Ok(None)
}

fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(()),
        done => done,
    }
}

/// The link of that name, if there is one.
fn find(netlink: &mut Netlink, name: &str) -> io::Result<Option<Link>> {
    match netlink.one(links::get(Some(name)), Link::read) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(None),
        found => found,
    }
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
