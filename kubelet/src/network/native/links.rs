//! Builds and parses netlink messages about links, addresses and routes. Pure.

use std::net::IpAddr;
use std::os::fd::RawFd;

use ipnet::IpNet;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    InfoBridgePort, InfoData, InfoKind, InfoPortData, InfoPortKind, InfoVeth, LinkAttribute, LinkExtentMask,
    LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};

/// The interface name in a pod, as CNI plugins call it.
pub(super) const POD_INTERFACE: &str = "eth0";

/// Creates a message about a link. With `up`, the message sets the link up.
pub(super) fn link(attributes: Vec<LinkAttribute>, up: bool) -> LinkMessage {
    let mut message = LinkMessage::default();
    if up {
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
    }
    message.attributes = attributes;
    message
}

/// Creates a bridge that is down.
pub(super) fn bridge(name: &str, mac: [u8; 6], mtu: u32) -> Message {
    Message::NewLink(link(
        vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::Address(mac.to_vec()),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]),
        ],
        false,
    ))
}

/// Creates a veth pair with its peer in a network namespace, both ends down. The host end is set up last, so that
/// the state shows an incomplete veth.
pub(super) fn veth(name: &str, namespace: RawFd, mac: [u8; 6], mtu: u32) -> Message {
    let inside = vec![
        LinkAttribute::IfName(POD_INTERFACE.to_owned()),
        LinkAttribute::Address(mac.to_vec()),
        LinkAttribute::Mtu(mtu),
        LinkAttribute::NetNsFd(namespace),
    ];
    let kind = LinkInfo::Kind(InfoKind::Veth);
    let data = LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(link(inside, false))));
    let attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::Mtu(mtu),
        LinkAttribute::LinkInfo(vec![kind, data]),
    ];
    Message::NewLink(link(attributes, false))
}

/// The MAC address for a pod's primary address. It depends only on the address, so that neighbour entries stay
/// valid if the address is used again. The prefix is that of CNI plugins.
pub(super) fn mac(primary: IpAddr) -> [u8; 6] {
    let [.., a, b, c, d] = match primary {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    [0x0a, 0x58, a, b, c, d]
}

/// Attaches a link to a bridge.
pub(super) fn set_bridge(index: u32, bridge: u32) -> Message {
    let mut message = link(vec![LinkAttribute::Controller(bridge)], false);
    message.header.index = index;
    Message::SetLink(message)
}

/// Enables hairpin mode on a bridge port, so that a pod reaches itself through a host port.
pub(super) fn hairpin(index: u32) -> Message {
    let data = InfoPortData::BridgePort(vec![InfoBridgePort::HairpinMode(true)]);
    let info = vec![LinkInfo::PortKind(InfoPortKind::Bridge), LinkInfo::PortData(data)];
    let mut message = link(vec![LinkAttribute::LinkInfo(info)], false);
    message.header.index = index;
    // The kernel accepts bridge port settings in `RTM_NEWLINK` only.
    Message::NewLink(message)
}

/// Sets a link's alias.
pub(super) fn set_alias(index: u32, text: &str) -> Message {
    let mut message = link(vec![LinkAttribute::IfAlias(text.to_owned())], false);
    message.header.index = index;
    Message::SetLink(message)
}

/// Sets a link up.
pub(super) fn set_up(index: u32) -> Message {
    let mut message = link(Vec::new(), true);
    message.header.index = index;
    Message::SetLink(message)
}

/// Requests all links, or the link of one name, without statistics.
pub(super) fn get(name: Option<&str>) -> Message {
    let mut attributes = vec![LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats])];
    attributes.extend(name.map(|name| LinkAttribute::IfName(name.to_owned())));
    Message::GetLink(link(attributes, false))
}

/// Deletes a link.
pub(super) fn remove(index: u32) -> Message {
    let mut message = link(Vec::new(), false);
    message.header.index = index;
    Message::DelLink(message)
}

/// Requests a link by its index.
pub(super) fn get_by_index(index: u32) -> Message {
    let mut message = link(vec![LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats])], false);
    message.header.index = index;
    Message::GetLink(message)
}

/// Adds an address to a link.
pub(super) fn address(index: u32, net: IpNet) -> Message {
    Message::NewAddress(address_message(index, net))
}

/// Removes an address from a link.
pub(super) fn without_address(index: u32, net: IpNet) -> Message {
    Message::DelAddress(address_message(index, net))
}

/// Requests all addresses.
pub(super) fn addresses() -> Message {
    Message::GetAddress(AddressMessage::default())
}

/// Reads the link index and the address of a message. Returns `None` for link-scope addresses.
pub(super) fn read_address(message: &AddressMessage) -> Option<(u32, IpNet)> {
    if message.header.scope == AddressScope::Link {
        return None;
    }
    let ip = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(ip) => Some(*ip),
        _ => None,
    });
    // IPv6 addresses have no `IFA_LOCAL` attribute.
    let ip = ip.or_else(|| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(ip) => Some(*ip),
            _ => None,
        })
    })?;
    Some((message.header.index, IpNet::new(ip, message.header.prefix_len).ok()?))
}

fn address_message(index: u32, net: IpNet) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(net.addr());
    message.header.prefix_len = net.prefix_len();
    message.header.scope = AddressScope::Universe;
    message.header.index = index;
    // The kubelet assigns the address itself, so duplicate address detection, which takes a second, is skipped.
    message.header.flags = AddressHeaderFlags::Nodad;
    message.attributes = vec![AddressAttribute::Local(net.addr()), AddressAttribute::Address(net.addr())];
    if let IpNet::V4(net) = net {
        message.attributes.push(AddressAttribute::Broadcast(net.broadcast()));
        message.header.flags = AddressHeaderFlags::empty();
    }
    message
}

pub(super) fn default_route(gateway: IpAddr, index: u32) -> Message {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: family(gateway),
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes = vec![RouteAttribute::Gateway(route_address(gateway)), RouteAttribute::Oif(index)];
    Message::NewRoute(message)
}

/// Requests all routes of a family.
pub(super) fn routes(of: IpAddr) -> Message {
    let mut message = RouteMessage::default();
    message.header.address_family = family(of);
    Message::GetRoute(message)
}

/// Reads destination and link of a unicast route in the main table. Returns `None` for the default route and all
/// others.
pub(super) fn destination(message: &RouteMessage) -> Option<(IpNet, Option<u32>)> {
    if message.header.kind != RouteType::Unicast || message.header.table != RouteHeader::RT_TABLE_MAIN {
        return None;
    }
    let by = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    });
    Some((to(message)?, by))
}

/// Reads the destination of a route. Returns `None` for the default route.
pub(super) fn to(message: &RouteMessage) -> Option<IpNet> {
    let ip = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(ip)) => Some(IpAddr::from(*ip)),
        RouteAttribute::Destination(RouteAddress::Inet6(ip)) => Some(IpAddr::from(*ip)),
        _ => None,
    })?;
    IpNet::new(ip, message.header.destination_prefix_length).ok()
}

/// Converts an address to a route attribute.
pub(super) fn route_address(ip: IpAddr) -> RouteAddress {
    match ip {
        IpAddr::V4(ip) => RouteAddress::Inet(ip),
        IpAddr::V6(ip) => RouteAddress::Inet6(ip),
    }
}

/// Whether the destination is link-local or multicast. In IPv6 each link has such routes.
pub(super) fn is_between_neighbours(message: &RouteMessage) -> bool {
    message.attributes.iter().any(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet6(ip)) => {
            ip.is_unicast_link_local() || ip.is_multicast()
        }
        _ => false,
    })
}

pub(super) fn default_link(message: &RouteMessage) -> Option<u32> {
    let is_default = message.header.destination_prefix_length == 0
        && message.header.kind == RouteType::Unicast
        && message.header.table == RouteHeader::RT_TABLE_MAIN;
    let by = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    });
    by.filter(|_| is_default)
}

/// The properties of a link that the kubelet uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// The link index.
    pub index: u32,
    /// The link name.
    pub name: String,
    pub alias: String,
    /// The index of the link's bridge.
    pub bridge: Option<u32>,
    pub is_up: bool,
    /// The MTU in bytes.
    pub mtu: u32,
}

impl Link {
    /// Reads the link of an `RTM_NEWLINK` message.
    pub fn read(message: Message) -> Option<Self> {
        match message {
            Message::NewLink(message) => Some(Self::of(&message)),
            _ => None,
        }
    }

    pub fn of(message: &LinkMessage) -> Self {
        let mut link = Self {
            index: message.header.index,
            is_up: message.header.flags.contains(LinkFlags::Up),
            ..Self::default()
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name.clone_from(name),
                LinkAttribute::IfAlias(alias) => link.alias.clone_from(alias),
                LinkAttribute::Controller(index) => link.bridge = Some(*index),
                LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
                _ => {}
            }
        }
        link
    }
}

pub(super) fn family(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}
