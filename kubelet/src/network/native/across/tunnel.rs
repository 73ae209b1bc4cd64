//! This node's end of a tunnel: a VXLAN that learns nothing and is told everything.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage as Message;
use rustix::io::Errno;

use super::plan::{Mac, Tunnel};
use super::words::{self, Device, PORT};
use crate::network::native::kernel;
use crate::network::native::links::{self, Link};
use crate::network::native::netlink::{Netlink, is};
use crate::network::nft::Family;

/// The end of one node, under one family of addresses.
pub(super) struct End<'a> {
    /// The name of the link.
    pub name: &'a str,
    /// The node's.
    pub node: &'a str,
    /// Of the addresses it goes between.
    pub under: Family,
}

impl End<'_> {
    /// Makes sure that it is there as planned, and knows where the others are; its number, and whether it was missing. What it
    /// knows beyond the plan stays until [`End::forget`].
    pub fn ensure(&self, netlink: &mut Netlink, plan: &Tunnel) -> io::Result<(u32, bool)> {
        let (link, is_new) = match self.found(netlink)? {
            Some((link, device)) if device.is_fit => {
                if device.mac != plan.mac || link.mtu != plan.mtu {
                    netlink.change(words::reshape(link.index, plan.mac, plan.mtu), 0)?;
                }
                (link, false)
            }
            Some(_) => {
                // Of our name, but other packets go through it.
                netlink.cut(self.name)?;
                (self.make(netlink, plan)?, true)
            }
            None => (self.make(netlink, plan)?, true),
        };
        let v6 = plan.addresses.iter().any(IpAddr::is_ipv6);
        kernel::tunnel(self.name, v6)?;
        if !link.is_up {
            netlink.change(links::up(link.index), 0).map_err(|error| self.port(netlink, error))?;
        }
        let there = netlink.addresses(link.index)?;
        for address in wanted(plan).difference(&there) {
            netlink.change(links::address(link.index, *address), NLM_F_CREATE | NLM_F_REPLACE)?;
        }
        let known = neighbours(netlink, link.index)?;
        for (ip, mac) in plan.neighbours.iter().filter(|(ip, mac)| known.get(ip) != Some(mac)) {
            let entry = Message::NewNeighbour(words::neighbour(link.index, *ip, *mac));
            netlink.change(entry, NLM_F_CREATE | NLM_F_REPLACE)?;
        }
        let known = forwarding(netlink, link.index)?;
        for (mac, at) in plan.forwarding.iter().filter(|(mac, at)| known.get(*mac) != Some(at)) {
            let entry = Message::NewNeighbour(words::forwarding(link.index, *mac, *at));
            netlink.change(entry, NLM_F_CREATE | NLM_F_REPLACE)?;
        }
        Ok((link.index, is_new))
    }

    /// Takes away what it knows beyond the plan.
    pub fn forget(&self, netlink: &mut Netlink, plan: &Tunnel, index: u32) -> io::Result<()> {
        for address in netlink.addresses(index)?.difference(&wanted(plan)) {
            gone_is_fine(netlink.change(links::without_address(index, *address), 0))?;
        }
        for (ip, mac) in neighbours(netlink, index)? {
            if !plan.neighbours.contains_key(&ip) {
                gone_is_fine(netlink.change(Message::DelNeighbour(words::neighbour(index, ip, mac)), 0))?;
            }
        }
        for (mac, at) in forwarding(netlink, index)? {
            if !plan.forwarding.contains_key(&mac) {
                gone_is_fine(netlink.change(Message::DelNeighbour(words::forwarding(index, mac, at)), 0))?;
            }
        }
        Ok(())
    }

    fn found(&self, netlink: &mut Netlink) -> io::Result<Option<(Link, Device)>> {
        let found = netlink.one(links::get(Some(self.name)), |message| match message {
            Message::NewLink(link) => Some((Link::of(&link), words::read_device(&link))),
            _ => None,
        });
        match found {
            Err(error) if is(&error, Errno::NODEV) => Ok(None),
            found => found,
        }
    }

    fn make(&self, netlink: &mut Netlink, plan: &Tunnel) -> io::Result<Link> {
        let made = words::tunnel(self.name, self.under, plan.mac, plan.mtu);
        let made = netlink.change(made, NLM_F_CREATE | NLM_F_EXCL);
        made.map_err(|error| self.port(netlink, error))?;
        let link =
            netlink.find(self.name)?.ok_or_else(|| io::Error::other("the tunnel went as it was made"))?;
        netlink.change(links::note(link.index, &format!("pods beyond node {}", self.node)), 0)?;
        Ok(link)
    }

    /// Why there is none, where somebody else has what it needs.
    fn port(&self, netlink: &mut Netlink, error: io::Error) -> io::Error {
        if !is(&error, Errno::EXIST) && !is(&error, Errno::ADDRINUSE) {
            return io::Error::new(error.kind(), format!("cannot make the tunnel {}: {error}", self.name));
        }
        let others = netlink.list(links::get(None), |message| match message {
            Message::NewLink(link) => {
                let name = Link::of(&link).name;
                let is_at_port = words::read_device(&link).port == Some(PORT);
                (is_at_port && name != self.name).then_some(name)
            }
            _ => None,
        });
        let others = others.unwrap_or_default();
        let who = if others.is_empty() { "some program".to_owned() } else { others.join(", ") };
        let text = format!(
            "cannot make the tunnel {}: {who} has UDP port {PORT} of this machine, which it goes by; end that, or put the nodes \
             on one segment",
            self.name
        );
        io::Error::new(error.kind(), text)
    }
}

fn wanted(plan: &Tunnel) -> BTreeSet<IpNet> {
    plan.addresses.iter().map(|ip| IpNet::from(*ip)).collect()
}

fn neighbours(netlink: &mut Netlink, index: u32) -> io::Result<BTreeMap<IpAddr, Mac>> {
    let mut known = BTreeMap::new();
    for family in Family::BOTH {
        known.extend(
            netlink.list(words::neighbours(family), |message| words::read_neighbour(message, index))?,
        );
    }
    Ok(known)
}

fn forwarding(netlink: &mut Netlink, index: u32) -> io::Result<BTreeMap<Mac, IpAddr>> {
    let known = netlink.list(words::all_forwarding(), |message| words::read_neighbour(message, index))?;
    Ok(known.into_iter().map(|(at, mac)| (mac, at)).collect())
}

fn gone_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error)
            if [Errno::NOENT, Errno::NODEV, Errno::ADDRNOTAVAIL].iter().any(|one| is(&error, *one)) =>
        {
            Ok(())
        }
        done => done,
    }
}
