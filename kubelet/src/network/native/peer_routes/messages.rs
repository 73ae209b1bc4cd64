//! Builds and parses netlink messages about routes, VXLAN devices, neighbours and the FDB. Pure.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_route::link::{InfoData, InfoKind, InfoVxlan, LinkAttribute, LinkInfo, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};

use super::plan::Mac;
use crate::network::native::links::{family, link, route_address};
use crate::network::nft::Family;

/// The protocol number of routes that kubelets create. Neither rtnetlink.h nor `rt_protos` of iproute2 uses it.
pub(in crate::network::native) const ROUTE_PROTOCOL: u8 = 67;
/// The VXLAN network identifier, 24 bits, the same on all nodes.
pub(super) const VNI: u32 = 0x00c0_ac1e;
/// The UDP port of VXLAN (RFC 7348).
pub(super) const VXLAN_PORT: u16 = 4789;

/// A route as it is installed in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InstalledRoute {
    /// The next hop.
    pub via: IpAddr,
    /// The index of the route's link.
    pub link: u32,
    /// Whether the next hop is on the link, although no address of the link is in its network.
    pub is_onlink: bool,
}

fn ip_of(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

/// Creates a route to a pod CIDR. `metric` is unique to the node, so that only its own routes are replaced.
pub(super) fn route(range: IpNet, installed: &InstalledRoute, metric: u32) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: family(range.addr()),
        destination_prefix_length: range.prefix_len(),
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Other(ROUTE_PROTOCOL),
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        flags: if installed.is_onlink { RouteFlags::Onlink } else { RouteFlags::empty() },
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Destination(route_address(range.network())),
        RouteAttribute::Gateway(route_address(installed.via)),
        RouteAttribute::Oif(installed.link),
        RouteAttribute::Priority(metric),
    ];
    message
}

/// Requests all routes of a family that kubelets created.
pub(in crate::network::native) fn our_routes(of: Family) -> Message {
    let mut message = RouteMessage::default();
    message.header.address_family = address_family(of);
    message.header.protocol = RouteProtocol::Other(ROUTE_PROTOCOL);
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    Message::GetRoute(message)
}

/// Reads a route, if the node with this metric created it.
pub(super) fn read_route(message: &RouteMessage, metric: u32) -> Option<(IpNet, InstalledRoute)> {
    let header = &message.header;
    if header.protocol != RouteProtocol::Other(ROUTE_PROTOCOL) || header.table != RouteHeader::RT_TABLE_MAIN {
        return None;
    }
    let (mut to, mut via, mut link, mut is_ours) = (None, None, None, false);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(ip) => to = ip_of(ip),
            RouteAttribute::Gateway(ip) => via = ip_of(ip),
            RouteAttribute::Oif(index) => link = Some(*index),
            RouteAttribute::Priority(priority) => is_ours = *priority == metric,
            _ => {}
        }
    }
    let range = IpNet::new(to?, header.destination_prefix_length).ok()?;
    let is_onlink = header.flags.contains(RouteFlags::Onlink);
    // A route without a next hop is not ours; it is returned with a placeholder, so that it differs from the plan.
    let installed =
        InstalledRoute { via: via.unwrap_or(range.network()), link: link.unwrap_or_default(), is_onlink };
    is_ours.then_some((range, installed))
}

/// Requests the route to an address.
pub(super) fn route_lookup(to: IpAddr) -> Message {
    let mut message = RouteMessage::default();
    message.header.address_family = family(to);
    message.header.destination_prefix_length = if to.is_ipv4() { 32 } else { 128 };
    message.attributes = vec![RouteAttribute::Destination(route_address(to))];
    Message::GetRoute(message)
}

/// The kernel's answer to a route lookup.
#[derive(Clone, Debug, Default)]
pub(super) struct RouteLookup {
    /// Whether the destination is on this machine.
    pub is_local: bool,
    /// The index of the egress link.
    pub link: u32,
    /// The address of the router, if any.
    pub gateway: Option<IpAddr>,
    /// Whether there is a next hop, even one of an unknown address family.
    pub has_hop: bool,
    /// The source address.
    pub from: Option<IpAddr>,
}

/// Reads the answer of a route lookup. Returns `None` if the route rejects packets.
pub(super) fn read_route_lookup(message: &RouteMessage) -> Option<RouteLookup> {
    let is_local = message.header.kind == RouteType::Local;
    if !is_local && message.header.kind != RouteType::Unicast {
        return None;
    }
    let mut answer = RouteLookup { is_local, ..RouteLookup::default() };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => answer.link = *index,
            RouteAttribute::Gateway(ip) => (answer.gateway, answer.has_hop) = (ip_of(ip), true),
            RouteAttribute::Via(_) => answer.has_hop = true,
            RouteAttribute::PrefSource(ip) => answer.from = ip_of(ip),
            _ => {}
        }
    }
    Some(answer)
}

/// Creates a VXLAN device that is down.
pub(super) fn vxlan(name: &str, underlay: Family, mac: Mac, mtu: u32) -> Message {
    let mut data = vec![InfoVxlan::Id(VNI), InfoVxlan::Port(VXLAN_PORT), InfoVxlan::Learning(false)];
    if underlay == Family::V6 {
        // An unspecified group selects the IPv6 underlay.
        data.push(InfoVxlan::Group6(Ipv6Addr::UNSPECIFIED));
    }
    let attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::Address(mac.to_vec()),
        LinkAttribute::Mtu(mtu),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Vxlan), LinkInfo::Data(InfoData::Vxlan(data))]),
    ];
    Message::NewLink(link(attributes, false))
}

/// Sets a link's MAC address and MTU.
pub(super) fn set_mac_and_mtu(index: u32, mac: Mac, mtu: u32) -> Message {
    let mut message = link(vec![LinkAttribute::Address(mac.to_vec()), LinkAttribute::Mtu(mtu)], false);
    message.header.index = index;
    Message::SetLink(message)
}

/// The properties of a link as a VXLAN device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Device {
    /// The MAC address.
    pub mac: Vec<u8>,
    /// Whether the device has the VNI and port that kubelets use, with learning off.
    pub is_compatible: bool,
    /// The UDP port, if the link is a VXLAN device.
    pub port: Option<u16>,
}

/// Reads a link as a VXLAN device.
pub(super) fn read_device(message: &LinkMessage) -> Device {
    let mut device = Device::default();
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Address(mac) => device.mac.clone_from(mac),
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    if let LinkInfo::Data(InfoData::Vxlan(data)) = info {
                        let port = data.iter().find_map(|one| match one {
                            InfoVxlan::Port(port) => Some(*port),
                            _ => None,
                        });
                        device.port = port;
                        device.is_compatible = port == Some(VXLAN_PORT)
                            && data.contains(&InfoVxlan::Id(VNI))
                            && data.contains(&InfoVxlan::Learning(false));
                    }
                }
            }
            _ => {}
        }
    }
    device
}

/// Creates a neighbour entry: the MAC address of an address inside the VXLAN.
pub(super) fn neighbour(index: u32, ip: IpAddr, mac: Mac) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = family(ip);
    message.header.ifindex = index;
    message.header.state = NeighbourState::Permanent;
    message.attributes = vec![
        NeighbourAttribute::Destination(neighbour_address(ip)),
        NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
    ];
    message
}

/// Creates an FDB entry: the underlay address of a MAC address.
pub(super) fn forwarding(index: u32, mac: Mac, at: IpAddr) -> NeighbourMessage {
    let mut message = neighbour(index, at, mac);
    message.header.family = AddressFamily::Bridge;
    message.header.flags = NeighbourFlags::Own;
    message
}

/// Requests all neighbours of a family.
pub(super) fn neighbours(of: Family) -> Message {
    let mut message = NeighbourMessage::default();
    message.header.family = address_family(of);
    Message::GetNeighbour(message)
}

/// Requests all FDB entries.
pub(super) fn all_forwarding() -> Message {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Bridge;
    Message::GetNeighbour(message)
}

/// Reads the address and MAC address of a permanent neighbour or FDB entry of a link.
pub(super) fn read_neighbour(message: Message, index: u32) -> Option<(IpAddr, Mac)> {
    let Message::NewNeighbour(message) = message else { return None };
    if message.header.ifindex != index || message.header.state != NeighbourState::Permanent {
        return None;
    }
    let (mut ip, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => ip = Some((*address).into()),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => ip = Some((*address).into()),
            NeighbourAttribute::Destination(NeighbourAddress::Other(bytes)) => ip = from_bytes(bytes),
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = Mac::try_from(bytes.as_slice()).ok(),
            _ => {}
        }
    }
    Some((ip?, mac?))
}

fn from_bytes(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

fn neighbour_address(ip: IpAddr) -> NeighbourAddress {
    match ip {
        IpAddr::V4(ip) => NeighbourAddress::Inet(ip),
        IpAddr::V6(ip) => NeighbourAddress::Inet6(ip),
    }
}

fn address_family(of: Family) -> AddressFamily {
    match of {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}
