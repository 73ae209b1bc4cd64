//! Creates, checks and repairs the bridge of a node and the veth pairs of its sandboxes.

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

use super::links::{self, Link};
use super::netlink::{LinkEvents, Netlink, is};
use super::peer_routes::PeerRoutes;
use super::record::Record;
use super::state::Key;
use super::{ipam, sysctl, unreachable_route};
use crate::network::meet;
use crate::network::nft::POD_PORT_PREFIX;
use crate::network::nft::services::BRIDGE_PREFIX;
use crate::runtime::netns::Namespace;

/// Prefix of link names of pods. A link name has at most 15 characters (IFNAMSIZ).
const VETH_PREFIX: &str = POD_PORT_PREFIX;
/// Prefix of the node's other links: bridges and VXLAN devices.
const NODE_LINK_PREFIX: &str = "coracle";
/// MTU in bytes if no egress link defines one: the MTU of Ethernet.
const MTU: u32 = 1500;

/// What was missing at a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The bridge did not exist.
    Bridge,
    /// The bridge was down, which removes its routes.
    Down,
    /// These addresses were missing.
    Addresses(Vec<IpNet>),
    /// The unreachable routes for these pod CIDRs were missing.
    UnreachableRoutes(Vec<IpNet>),
    /// These sysctls for packet forwarding were off.
    Settings(Vec<String>),
}

/// A node's bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bridge {
    /// The link name.
    pub name: String,
    /// The node's name, which the link has as its alias.
    node: String,
    /// A fixed MAC address. Without one, a bridge has the lowest MAC address of its ports, which changes when pods
    /// come and go.
    mac: [u8; 6],
    /// The metric of the unreachable routes for the node's pod CIDRs.
    unreachable_metric: u32,
}

impl Bridge {
    /// The link name of a node's bridge. It contains a hash of the node name, because several nodes may share a
    /// machine.
    pub fn name_of(node: &str) -> String {
        let digest = hex::encode(&Sha256::digest(node)[..3]);
        format!("{BRIDGE_PREFIX}{digest}")
    }

    /// Describes the bridge of a node. It need not exist.
    pub fn new(node: &str) -> Self {
        let digest = Sha256::digest(node);
        // A locally administered unicast address.
        Self {
            name: Self::name_of(node),
            node: node.to_owned(),
            mac: [0x02, digest[3], digest[4], digest[5], digest[6], digest[7]],
            unreachable_metric: unreachable_route::metric(node),
        }
    }

    /// The MAC address.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// The link name of a sandbox's veth.
    pub fn veth(&self, key: &Key) -> String {
        let digest = Sha256::digest(format!("{} {} {}", self.name, key.uid, key.attempt));
        format!("{VETH_PREFIX}{}", &hex::encode(digest)[..12])
    }

    /// Creates what is missing: the bridge, its alias, its state up, an address per pod CIDR, and the unreachable
    /// routes. Returns the link and what was missing.
    pub fn ensure(&self, netlink: &mut Netlink, ranges: &[IpNet]) -> io::Result<(Link, Vec<Missing>)> {
        let mut added_routes = Vec::new();
        for range in ranges {
            if unreachable_route::add(netlink, range, self.unreachable_metric)? {
                added_routes.push(*range);
            }
        }
        let found = netlink.find(&self.name)?;
        let was_there = found.is_some();
        let link = match found {
            Some(link) => link,
            None => self.create(netlink)?,
        };
        // The kubelet that created the bridge may have been killed before it set the alias.
        let alias = format!("pods of node {}", self.node);
        if link.alias != alias {
            netlink.change(links::set_alias(link.index, &alias), 0)?;
        }
        // This comes before the link is up, so that no pod can announce a default route to the host.
        sysctl::ignore_router_advertisements(&self.name)?;
        if !link.is_up {
            netlink.change(links::set_up(link.index), 0)?;
        }
        let there = netlink.addresses(link.index)?;
        let mut addresses = Vec::new();
        for range in ranges {
            let address = bridge_address(range)?;
            if !there.contains(&address) {
                netlink.change(links::address(link.index, address), NLM_F_CREATE | NLM_F_REPLACE)?;
                addresses.push(address);
            }
        }
        let has = |v4: bool| ranges.iter().any(|range| range.addr().is_ipv4() == v4);
        let mut settings = sysctl::enable_forwarding(&self.name, has(true), has(false))?;
        let mut missing = Vec::new();
        match (was_there, link.is_up) {
            (false, _) => missing.push(Missing::Bridge),
            (true, false) => missing.push(Missing::Down),
            (true, true) if addresses.is_empty() => {}
            (true, true) => missing.push(Missing::Addresses(addresses)),
        }
        if !added_routes.is_empty() {
            missing.push(Missing::UnreachableRoutes(added_routes));
        }
        // A new bridge has default settings, which count as missing with the bridge itself.
        settings.retain(|name| was_there || !name.contains(&self.name));
        if !settings.is_empty() {
            missing.push(Missing::Settings(settings));
        }
        Ok((link, missing))
    }

    /// Whether a route is one of the node's unreachable routes.
    pub fn is_unreachable_route(&self, route: &RouteMessage) -> bool {
        unreachable_route::read(route, self.unreachable_metric).is_some()
    }

    /// Removes the bridge and the unreachable routes.
    pub fn remove(&self, netlink: &mut Netlink) -> io::Result<()> {
        netlink.delete_link(&self.name)?;
        unreachable_route::remove_all(netlink, self.unreachable_metric)
    }

    /// The number of veths on the bridge. The kernel removes a network namespace some time after its last process
    /// ended. Therefore this waits up to `patience` until the count is 0. Blocks.
    pub fn attached_veths(&self, netlink: &mut Netlink, patience: Duration) -> io::Result<usize> {
        // Subscribing before the first listing avoids missed changes.
        let mut events = LinkEvents::open()?;
        let end = Instant::now() + patience;
        loop {
            let Some(bridge) = netlink.find(&self.name)? else { return Ok(0) };
            let is_port = |link: &Link| link.bridge == Some(bridge.index);
            let ports = netlink.list(links::get(None), |message| Link::read(message).filter(is_port))?;
            let left = end.saturating_duration_since(Instant::now());
            if ports.is_empty() || left.is_zero() {
                return Ok(ports.len());
            }
            events.wait(left)?;
        }
    }

    /// Removes the bridge's address of a pod CIDR, and the unreachable route.
    pub fn remove_address(&self, netlink: &mut Netlink, range: &IpNet) -> io::Result<()> {
        unreachable_route::remove(netlink, range, self.unreachable_metric)?;
        let Some(link) = netlink.find(&self.name)? else { return Ok(()) };
        match netlink.change(links::without_address(link.index, bridge_address(range)?), 0) {
            Err(error) if is(&error, Errno::ADDRNOTAVAIL) => Ok(()),
            done => done,
        }
    }

    fn create(&self, netlink: &mut Netlink) -> io::Result<Link> {
        let mtu = egress_mtu(netlink)?;
        netlink.change(links::bridge(&self.name, self.mac, mtu), NLM_F_CREATE | NLM_F_EXCL)?;
        let made = netlink.find(&self.name)?;
        made.ok_or_else(|| io::Error::other("the bridge was removed while it was created"))
    }

    /// Creates the veth pair of a sandbox in a network namespace. After an error nothing of it is left.
    pub fn create_veth(
        &self,
        netlink: &mut Netlink,
        bridge: &Link,
        ranges: &[IpNet],
        (key, record): (&Key, &Record),
        namespace: &Namespace,
    ) -> io::Result<()> {
        let name = self.veth(key);
        let primary =
            record.addresses.first().ok_or_else(|| io::Error::other("the sandbox has no address"))?;
        // A veth left by an interrupted attempt.
        netlink.delete_link(&name)?;
        let veth = links::veth(&name, namespace.descriptor(), links::mac(*primary), bridge.mtu);
        netlink.change(veth, NLM_F_CREATE | NLM_F_EXCL)?;
        let result = namespace
            .within(|| configure_pod_end(ranges, record))
            .and_then(|()| netlink.find(&name)?.ok_or_else(|| io::ErrorKind::NotFound.into()))
            .and_then(|ours| self.attach_to_bridge(netlink, bridge, &ours));
        result.inspect_err(|_| drop(netlink.delete_link(&name)))
    }

    /// Attaches a veth to the bridge and sets it up.
    pub fn attach_to_bridge(&self, netlink: &mut Netlink, bridge: &Link, veth: &Link) -> io::Result<()> {
        netlink.change(links::set_bridge(veth.index, bridge.index), 0)?;
        netlink.change(links::hairpin(veth.index), 0)?;
        netlink.change(links::set_up(veth.index), 0)
    }

    /// The veths on the bridge, and unattached links with a veth name, by link name.
    pub fn veths(&self, netlink: &mut Netlink, bridge: &Link) -> io::Result<HashMap<String, Link>> {
        let is_ours = |link: &Link| is_veth(&link.name) && link.bridge.is_none_or(|at| at == bridge.index);
        let named = |link: Link| (link.name.clone(), link);
        let ours =
            netlink.list(links::get(None), |message| Link::read(message).filter(is_ours).map(named))?;
        Ok(ours.into_iter().collect())
    }
}

fn configure_pod_end(ranges: &[IpNet], record: &Record) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let eth0 = netlink
        .find(links::POD_INTERFACE)?
        .ok_or_else(|| io::Error::other(format!("the pod has no {}", links::POD_INTERFACE)))?;
    sysctl::ignore_router_advertisements(links::POD_INTERFACE)?;
    if record.addresses.iter().any(IpAddr::is_ipv6) {
        // The anti-spoofing rules expect the link-local address that follows from the hardware address.
        sysctl::derive_link_local(links::POD_INTERFACE)?;
        // IPv6 is enabled for `::1` too.
        ["lo", links::POD_INTERFACE].into_iter().try_for_each(sysctl::enable_ipv6)?;
    }
    netlink.change(links::set_up(eth0.index), 0)?;
    for ip in &record.addresses {
        let range = ranges.iter().find(|range| range.contains(ip)).ok_or_else(|| {
            io::Error::other(format!("its address {ip} is in no pod CIDR of this node; see --pod-cidr"))
        })?;
        let address = IpNet::new(*ip, range.prefix_len()).map_err(io::Error::other)?;
        netlink.change(links::address(eth0.index, address), NLM_F_CREATE | NLM_F_REPLACE)?;
        let route = links::default_route(ipam::gateway(*range), eth0.index);
        netlink.change(route, NLM_F_CREATE | NLM_F_REPLACE)?;
    }
    Ok(())
}

/// The bridge's address in a pod CIDR.
fn bridge_address(range: &IpNet) -> io::Result<IpNet> {
    IpNet::new(ipam::gateway(*range), range.prefix_len()).map_err(io::Error::other)
}

/// Whether a link name is that of a veth, of this node or of another node on the machine.
pub(super) fn is_veth(name: &str) -> bool {
    name.starts_with(VETH_PREFIX) && !name.starts_with(NODE_LINK_PREFIX)
}

/// Finds a route of this machine that overlaps one of the pod CIDRs. The node's own links are ignored. Its routes
/// to peers are ignored unless `own_routes` counts them. Returns the route with its link and node, for example
/// `10.0.0.0/8 over eth0`.
pub(super) fn overlap(
    netlink: &mut Netlink,
    ranges: &[IpNet],
    peer_routes: &PeerRoutes,
    own_routes: OwnRoutes,
) -> io::Result<Option<String>> {
    let all = netlink.list(links::get(None), Link::read)?;
    let link = |index: u32| all.iter().find(|link| link.index == index);
    for range in ranges {
        let met = netlink.list(links::routes(range.addr()), |message| {
            let Message::NewRoute(route) = message else { return None };
            let (to, by) = links::destination(&route)?;
            let link = by.and_then(link);
            let is_own = link.is_some_and(|link| peer_routes.is_of_node(&link.name))
                || own_routes == OwnRoutes::Ignore && peer_routes.is_own_route(&route);
            let whose = |link: &Link| match link.name.starts_with(NODE_LINK_PREFIX) && !link.alias.is_empty()
            {
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

/// Whether the node's own routes to peers count as an overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnRoutes {
    /// The routes count as an overlap.
    Count,
    /// The routes are ignored, because they are removed when the node gets the CIDR.
    Ignore,
}

/// The MTU of the link of the default route, through which the packets of pods leave.
fn egress_mtu(netlink: &mut Netlink) -> io::Result<u32> {
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
