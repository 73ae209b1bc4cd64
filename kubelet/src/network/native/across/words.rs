//! What is asked of the kernel to reach other nodes, in its own words, and what it says. Pure.

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

/// Who laid a route, among the numbers that nobody else uses (rtnetlink.h, iproute2's `rt_protos`).
pub(in crate::network::native) const OURS: u8 = 67;
/// The network in the tunnel, the same on all nodes: 24 bits.
pub(super) const NETWORK: u32 = 0x00c0_ac1e;
/// The UDP port that VXLAN has (RFC 7348).
pub(super) const PORT: u16 = 4789;

/// A route as far as it is laid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Laid {
    /// The next hop.
    pub via: IpAddr,
    /// The link it leaves by.
    pub link: u32,
    /// Whether that hop is taken to be on the link though no address of it says so.
    pub is_onlink: bool,
}

fn ip_of(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

/// A route to a range. `metric` is the node's own, so that no route but its own is ever replaced.
pub(super) fn route(range: IpNet, laid: &Laid, metric: u32) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: family(range.addr()),
        destination_prefix_length: range.prefix_len(),
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Other(OURS),
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        flags: if laid.is_onlink { RouteFlags::Onlink } else { RouteFlags::empty() },
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Destination(route_address(range.network())),
        RouteAttribute::Gateway(route_address(laid.via)),
        RouteAttribute::Oif(laid.link),
        RouteAttribute::Priority(metric),
    ];
    message
}

/// All routes of a family that were laid by a kubelet.
pub(in crate::network::native) fn our_routes(of: Family) -> Message {
    let mut message = RouteMessage::default();
    message.header.address_family = of_family(of);
    message.header.protocol = RouteProtocol::Other(OURS);
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    Message::GetRoute(message)
}

/// A route that the node of that metric has laid, if the message tells of one.
pub(super) fn read_route(message: &RouteMessage, metric: u32) -> Option<(IpNet, Laid)> {
    let header = &message.header;
    if header.protocol != RouteProtocol::Other(OURS) || header.table != RouteHeader::RT_TABLE_MAIN {
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
    // One without a next hop is none that was wanted, and is told as one.
    let laid = Laid { via: via.unwrap_or(range.network()), link: link.unwrap_or_default(), is_onlink };
    is_ours.then_some((range, laid))
}

/// The question which way a packet to an address goes.
pub(super) fn way(to: IpAddr) -> Message {
    let mut message = RouteMessage::default();
    message.header.address_family = family(to);
    message.header.destination_prefix_length = if to.is_ipv4() { 32 } else { 128 };
    message.attributes = vec![RouteAttribute::Destination(route_address(to))];
    Message::GetRoute(message)
}

/// The answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// It does not leave the machine.
    pub is_local: bool,
    /// The link it leaves by.
    pub link: u32,
    /// The router it is given to.
    pub gateway: Option<IpAddr>,
    /// A next hop there is, though its address is of no family known here.
    pub has_hop: bool,
    /// The address it bears.
    pub from: Option<IpAddr>,
}

/// The answer, unless packets are refused.
pub(super) fn read_way(message: &RouteMessage) -> Option<Answer> {
    let is_local = message.header.kind == RouteType::Local;
    if !is_local && message.header.kind != RouteType::Unicast {
        return None;
    }
    let mut answer = Answer { is_local, ..Answer::default() };
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

/// A tunnel's own end, not switched on yet.
pub(super) fn tunnel(name: &str, under: Family, mac: Mac, mtu: u32) -> Message {
    let mut data = vec![InfoVxlan::Id(NETWORK), InfoVxlan::Port(PORT), InfoVxlan::Learning(false)];
    if under == Family::V6 {
        // Nowhere, but in that family.
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

/// Gives a link that hardware address and that size of packets.
pub(super) fn reshape(index: u32, mac: Mac, mtu: u32) -> Message {
    let mut message = link(vec![LinkAttribute::Address(mac.to_vec()), LinkAttribute::Mtu(mtu)], false);
    message.header.index = index;
    Message::SetLink(message)
}

/// What is known of a link that may be a tunnel of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Device {
    /// Its hardware address.
    pub mac: Vec<u8>,
    /// Whether packets go through it as they do through ours.
    pub is_fit: bool,
    /// The UDP port it has, if it is a VXLAN.
    pub port: Option<u16>,
}

/// A link as a tunnel.
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
                        device.is_fit = port == Some(PORT)
                            && data.contains(&InfoVxlan::Id(NETWORK))
                            && data.contains(&InfoVxlan::Learning(false));
                    }
                }
            }
            _ => {}
        }
    }
    device
}

/// Who an address inside a tunnel is.
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

/// Where an end of a tunnel is.
pub(super) fn forwarding(index: u32, mac: Mac, at: IpAddr) -> NeighbourMessage {
    let mut message = neighbour(index, at, mac);
    message.header.family = AddressFamily::Bridge;
    message.header.flags = NeighbourFlags::Own;
    message
}

/// All neighbours of a family.
pub(super) fn neighbours(of: Family) -> Message {
    let mut message = NeighbourMessage::default();
    message.header.family = of_family(of);
    Message::GetNeighbour(message)
}

/// Where all ends of all tunnels are.
pub(super) fn all_forwarding() -> Message {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Bridge;
    Message::GetNeighbour(message)
}

/// Address and hardware address of an entry of that link, either kind; what is none of that is left out.
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

fn of_family(of: Family) -> AddressFamily {
    match of {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}
