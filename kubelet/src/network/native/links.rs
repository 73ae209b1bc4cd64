//! What is asked of the kernel, in its own words. Pure.

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

/// The name of a pod's own end, as CNI plugins call it.
pub(super) const IN_POD: &str = "eth0";

/// A message about a link, switched on or as it is.
pub(super) fn link(attributes: Vec<LinkAttribute>, up: bool) -> LinkMessage {
    let mut message = LinkMessage::default();
    if up {
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
    }
    message.attributes = attributes;
    message
}

/// A bridge, not switched on yet.
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

/// A cable whose other end is in a network namespace; neither end is switched on. Ours is when all is done, which is how one that
/// was left half laid is known.
pub(super) fn cable(name: &str, namespace: RawFd, mac: [u8; 6], mtu: u32) -> Message {
    let inside = vec![
        LinkAttribute::IfName(IN_POD.to_owned()),
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

/// The hardware address that goes with a pod's: whoever has it gets the same, so that neighbours need not learn anew. The prefix is the one
/// that CNI's plugins use.
pub(super) fn mac(primary: IpAddr) -> [u8; 6] {
    let [.., a, b, c, d] = match primary {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    [0x0a, 0x58, a, b, c, d]
}

/// Plugs an end into the bridge.
pub(super) fn plug(index: u32, bridge: u32) -> Message {
    let mut message = link(vec![LinkAttribute::Controller(bridge)], false);
    message.header.index = index;
    Message::SetLink(message)
}

/// Has a port of a bridge send back by the way something came, so that a pod reaches itself by a port of the host.
pub(super) fn hairpin(index: u32) -> Message {
    let data = InfoPortData::BridgePort(vec![InfoBridgePort::HairpinMode(true)]);
    let info = vec![LinkInfo::PortKind(InfoPortKind::Bridge), LinkInfo::PortData(data)];
    let mut message = link(vec![LinkAttribute::LinkInfo(info)], false);
    message.header.index = index;
    // What a port is told about itself is heard in this kind of message alone.
    Message::NewLink(message)
}

/// Says for people whose link it is.
pub(super) fn note(index: u32, text: &str) -> Message {
    let mut message = link(vec![LinkAttribute::IfAlias(text.to_owned())], false);
    message.header.index = index;
    Message::SetLink(message)
}

/// Switches a link on.
pub(super) fn up(index: u32) -> Message {
    let mut message = link(Vec::new(), true);
    message.header.index = index;
    Message::SetLink(message)
}

/// All links, or the one of that name, without what they count.
pub(super) fn get(name: Option<&str>) -> Message {
    let mut attributes = vec![LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats])];
    attributes.extend(name.map(|name| LinkAttribute::IfName(name.to_owned())));
    Message::GetLink(link(attributes, false))
}

/// Takes a link away.
pub(super) fn remove(index: u32) -> Message {
    let mut message = link(Vec::new(), false);
    message.header.index = index;
    Message::DelLink(message)
}

/// The link of that number.
pub(super) fn numbered(index: u32) -> Message {
    let mut message = link(vec![LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats])], false);
    message.header.index = index;
    Message::GetLink(message)
}

/// Gives a link an address.
pub(super) fn address(index: u32, net: IpNet) -> Message {
    Message::NewAddress(addressed(index, net))
}

/// Takes an address from a link.
pub(super) fn without_address(index: u32, net: IpNet) -> Message {
    Message::DelAddress(addressed(index, net))
}

/// All addresses of this machine.
pub(super) fn addresses() -> Message {
    Message::GetAddress(AddressMessage::default())
}

/// An address and the number of its link, if the message tells of one that others than its neighbours know.
pub(super) fn read_address(message: &AddressMessage) -> Option<(u32, IpNet)> {
    if message.header.scope == AddressScope::Link {
        return None;
    }
    let ip = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(ip) => Some(*ip),
        _ => None,
    });
    // Of IPv6 there is the other one alone.
    let ip = ip.or_else(|| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(ip) => Some(*ip),
            _ => None,
        })
    })?;
    Some((message.header.index, IpNet::new(ip, message.header.prefix_len).ok()?))
}

fn addressed(index: u32, net: IpNet) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(net.addr());
    message.header.prefix_len = net.prefix_len();
    message.header.scope = AddressScope::Universe;
    message.header.index = index;
    // It is ours by reckoning: nobody else is asked whether he has it, which would take a second in IPv6.
    message.header.flags = AddressHeaderFlags::Nodad;
    message.attributes = vec![AddressAttribute::Local(net.addr()), AddressAttribute::Address(net.addr())];
    if let IpNet::V4(net) = net {
        message.attributes.push(AddressAttribute::Broadcast(net.broadcast()));
        message.header.flags = AddressHeaderFlags::empty();
    }
    message
}

/// The way to everywhere else.
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

/// All routes of a family.
pub(super) fn routes(of: IpAddr) -> Message {
    let mut message = RouteMessage::default();
    message.header.address_family = family(of);
    Message::GetRoute(message)
}

/// Where a route leads to, and through which link; `None` for what says nothing of addresses in use, as the default route.
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

/// The addresses that a route is for; `None` for all of them.
pub(super) fn to(message: &RouteMessage) -> Option<IpNet> {
    let ip = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(ip)) => Some(IpAddr::from(*ip)),
        RouteAttribute::Destination(RouteAddress::Inet6(ip)) => Some(IpAddr::from(*ip)),
        _ => None,
    })?;
    IpNet::new(ip, message.header.destination_prefix_length).ok()
}

/// An address as routes have it.
pub(super) fn route_address(ip: IpAddr) -> RouteAddress {
    match ip {
        IpAddr::V4(ip) => RouteAddress::Inet(ip),
        IpAddr::V6(ip) => RouteAddress::Inet6(ip),
    }
}

/// Whether a route is to addresses that are good for one link alone, as every link has some of IPv6.
pub(super) fn is_between_neighbours(message: &RouteMessage) -> bool {
    message.attributes.iter().any(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet6(ip)) => {
            ip.is_unicast_link_local() || ip.is_multicast()
        }
        _ => false,
    })
}

/// The link by which everything goes that goes nowhere else, if this is that route.
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

/// A link as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What it says for people.
    pub alias: String,
    /// The bridge it is a port of.
    pub bridge: Option<u32>,
    /// Whether it is switched on.
    pub is_up: bool,
    /// Bytes of its largest packet.
    pub mtu: u32,
}

impl Link {
    /// The link that a message tells of, if it tells of one.
    pub fn read(message: Message) -> Option<Self> {
        match message {
            Message::NewLink(message) => Some(Self::of(&message)),
            _ => None,
        }
    }

    /// As a message tells of it.
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

/// The kernel's name of an address's family.
pub(super) fn family(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}
