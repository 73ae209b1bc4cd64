//! The node's VXLAN device. Learning is off; the kubelet sets all neighbour and FDB entries.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage as Message;
use rustix::io::Errno;

use super::messages::{self, Device, VXLAN_PORT};
use super::plan::{Mac, VxlanConfig};
use crate::network::native::links::{self, Link};
use crate::network::native::netlink::{Netlink, is};
use crate::network::native::sysctl;
use crate::network::nft::Family;

/// The VXLAN device of one node for one underlay family.
pub(super) struct VxlanDevice<'a> {
    /// The link name.
    pub name: &'a str,
    /// The node's name.
    pub node: &'a str,
    /// The address family of the underlay.
    pub underlay: Family,
}

impl VxlanDevice<'_> {
    /// Ensures the device and all its entries. Returns its index and whether it was missing. Obsolete entries stay
    /// until [`VxlanDevice::prune`].
    pub fn ensure(&self, netlink: &mut Netlink, config: &VxlanConfig) -> io::Result<(u32, bool)> {
        let (link, is_new) = match self.find(netlink)? {
            Some((link, device)) if device.is_compatible => {
                if device.mac != config.mac || link.mtu != config.mtu {
                    netlink.change(messages::set_mac_and_mtu(link.index, config.mac, config.mtu), 0)?;
                }
                (link, false)
            }
            Some(_) => {
                // The device has our name but an incompatible configuration.
                netlink.delete_link(self.name)?;
                (self.create(netlink, config)?, true)
            }
            None => (self.create(netlink, config)?, true),
        };
        let v6 = config.addresses.iter().any(IpAddr::is_ipv6);
        sysctl::configure_vxlan(self.name, v6)?;
        if !link.is_up {
            netlink
                .change(links::set_up(link.index), 0)
                .map_err(|error| self.port_conflict(netlink, error))?;
        }
        let there = netlink.addresses(link.index)?;
        for address in addresses(config).difference(&there) {
            netlink.change(links::address(link.index, *address), NLM_F_CREATE | NLM_F_REPLACE)?;
        }
        let known = neighbours(netlink, link.index)?;
        for (ip, mac) in config.neighbours.iter().filter(|(ip, mac)| known.get(ip) != Some(mac)) {
            let entry = Message::NewNeighbour(messages::neighbour(link.index, *ip, *mac));
            netlink.change(entry, NLM_F_CREATE | NLM_F_REPLACE)?;
        }
        let known = forwarding(netlink, link.index)?;
        for (mac, at) in config.forwarding.iter().filter(|(mac, at)| known.get(*mac) != Some(at)) {
            let entry = Message::NewNeighbour(messages::forwarding(link.index, *mac, *at));
            netlink.change(entry, NLM_F_CREATE | NLM_F_REPLACE)?;
        }
        Ok((link.index, is_new))
    }

    /// Removes the entries that the configuration lacks.
    pub fn prune(&self, netlink: &mut Netlink, config: &VxlanConfig, index: u32) -> io::Result<()> {
        for address in netlink.addresses(index)?.difference(&addresses(config)) {
            ignore_missing(netlink.change(links::without_address(index, *address), 0))?;
        }
        for (ip, mac) in neighbours(netlink, index)? {
            if !config.neighbours.contains_key(&ip) {
                ignore_missing(
                    netlink.change(Message::DelNeighbour(messages::neighbour(index, ip, mac)), 0),
                )?;
            }
        }
        for (mac, at) in forwarding(netlink, index)? {
            if !config.forwarding.contains_key(&mac) {
                ignore_missing(
                    netlink.change(Message::DelNeighbour(messages::forwarding(index, mac, at)), 0),
                )?;
            }
        }
        Ok(())
    }

    fn find(&self, netlink: &mut Netlink) -> io::Result<Option<(Link, Device)>> {
        let find = netlink.one(links::get(Some(self.name)), |message| match message {
            Message::NewLink(link) => Some((Link::of(&link), messages::read_device(&link))),
            _ => None,
        });
        match find {
            Err(error) if is(&error, Errno::NODEV) => Ok(None),
            find => find,
        }
    }

    fn create(&self, netlink: &mut Netlink, config: &VxlanConfig) -> io::Result<Link> {
        let created = messages::vxlan(self.name, self.underlay, config.mac, config.mtu);
        let created = netlink.change(created, NLM_F_CREATE | NLM_F_EXCL);
        created.map_err(|error| self.port_conflict(netlink, error))?;
        let link = netlink
            .find(self.name)?
            .ok_or_else(|| io::Error::other("the tunnel was removed while it was created"))?;
        netlink.change(links::set_alias(link.index, &format!("pods beyond node {}", self.node)), 0)?;
        Ok(link)
    }

    /// Adds the name of the device that uses the UDP port, if that caused the error.
    fn port_conflict(&self, netlink: &mut Netlink, error: io::Error) -> io::Error {
        if !is(&error, Errno::EXIST) && !is(&error, Errno::ADDRINUSE) {
            return io::Error::new(error.kind(), format!("cannot create the tunnel {}: {error}", self.name));
        }
        let others = netlink.list(links::get(None), |message| match message {
            Message::NewLink(link) => {
                let name = Link::of(&link).name;
                let is_at_port = messages::read_device(&link).port == Some(VXLAN_PORT);
                (is_at_port && name != self.name).then_some(name)
            }
            _ => None,
        });
        let others = others.unwrap_or_default();
        let who = if others.is_empty() { "some program".to_owned() } else { others.join(", ") };
        let text = format!(
            "cannot create the tunnel {}: {who} uses its UDP port {VXLAN_PORT} on this machine; stop that, or put the nodes \
             on one segment",
            self.name
        );
        io::Error::new(error.kind(), text)
    }
}

fn addresses(config: &VxlanConfig) -> BTreeSet<IpNet> {
    config.addresses.iter().map(|ip| IpNet::from(*ip)).collect()
}

fn neighbours(netlink: &mut Netlink, index: u32) -> io::Result<BTreeMap<IpAddr, Mac>> {
    let mut known = BTreeMap::new();
    for family in Family::BOTH {
        known.extend(
            netlink.list(messages::neighbours(family), |message| messages::read_neighbour(message, index))?,
        );
    }
    Ok(known)
}

fn forwarding(netlink: &mut Netlink, index: u32) -> io::Result<BTreeMap<Mac, IpAddr>> {
    let known =
        netlink.list(messages::all_forwarding(), |message| messages::read_neighbour(message, index))?;
    Ok(known.into_iter().map(|(at, mac)| (mac, at)).collect())
}

fn ignore_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error)
            if [Errno::NOENT, Errno::NODEV, Errno::ADDRNOTAVAIL].iter().any(|one| is(&error, *one)) =>
        {
            Ok(())
        }
        done => done,
    }
}
