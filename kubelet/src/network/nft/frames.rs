//! Expressions that match Ethernet frames in a bridge: ports, hardware addresses, ARP and neighbour discovery. Pure.

use super::expression::{
    Expression, FIRST, META_IIFNAME, META_L4PROTO, META_OIFNAME, at_least, at_most, compare, constant,
    lookup, mask, meta, payload,
};
use super::wire::Attributes;

const META_PROTOCOL: u32 = 1;

const LINK_HEADER: u32 = 0;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;

/// Bytes of an interface name in a register; `IFNAMSIZ`.
pub const INTERFACE_NAME_BYTES: usize = 16;

/// EtherTypes as in `skb->protocol`. The kernel removes a VLAN tag before the bridge gets the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtherType {
    /// The EtherType `ETH_P_IP`.
    Ipv4,
    /// The EtherType `ETH_P_IPV6`.
    Ipv6,
    /// The EtherType `ETH_P_ARP`.
    Arp,
}

impl EtherType {
    fn bytes(self) -> [u8; 2] {
        match self {
            Self::Ipv4 => [0x08, 0x00],
            Self::Ipv6 => [0x86, 0xdd],
            Self::Arp => [0x08, 0x06],
        }
    }
}

/// A field of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The destination hardware address.
    EthernetDestination,
    /// The source hardware address.
    EthernetSource,
    /// The operation of an ARP packet: request or reply.
    ArpOperation,
    /// The hardware address that an ARP packet announces.
    ArpSenderHardware,
    /// The IPv4 address that an ARP packet announces.
    ArpSenderAddress,
    /// The source of an IPv4 packet.
    Ipv4Source,
    /// The source of an IPv6 packet.
    Ipv6Source,
    /// The type of an ICMPv6 message.
    Icmpv6Type,
    /// The target address of a neighbour solicitation or advertisement.
    NeighbourTarget,
}

impl Field {
    /// Where the field is: the header, the offset in the header, and the length in bytes.
    fn place(self) -> (u32, u32, u32) {
        match self {
            Self::EthernetDestination => (LINK_HEADER, 0, 6),
            Self::EthernetSource => (LINK_HEADER, 6, 6),
            Self::ArpOperation => (NETWORK_HEADER, 6, 2),
            Self::ArpSenderHardware => (NETWORK_HEADER, 8, 6),
            Self::ArpSenderAddress => (NETWORK_HEADER, 14, 4),
            Self::Ipv4Source => (NETWORK_HEADER, 12, 4),
            Self::Ipv6Source => (NETWORK_HEADER, 8, 16),
            Self::Icmpv6Type => (TRANSPORT_HEADER, 0, 1),
            Self::NeighbourTarget => (TRANSPORT_HEADER, 8, 16),
        }
    }

    fn load(self, register: u32) -> Expression {
        let (header, offset, length) = self.place();
        payload(header, offset, length, register)
    }

    /// Number of four-byte registers that the field needs.
    fn registers(self) -> u32 {
        self.place().2.div_ceil(4)
    }
}

/// Matches frames from ports whose name does not have this prefix.
pub fn comes_in_by_no(prefix: &str) -> Vec<Expression> {
    vec![meta(META_IIFNAME, FIRST), compare(false, prefix.as_bytes())]
}

/// Matches frames of a protocol.
pub fn carries(protocol: EtherType) -> Vec<Expression> {
    vec![meta(META_PROTOCOL, FIRST), compare(true, &protocol.bytes())]
}

/// Matches ICMPv6 messages, also behind extension headers.
pub fn is_icmpv6() -> Vec<Expression> {
    /// The protocol number `IPPROTO_ICMPV6`.
    const ICMPV6: u8 = 58;
    vec![meta(META_L4PROTO, FIRST), compare(true, &[ICMPV6])]
}

/// Matches a value of a field.
pub fn has(field: Field, value: &[u8]) -> Vec<Expression> {
    vec![field.load(FIRST), compare(true, value)]
}

/// Matches if `field & ones` equals `value`.
pub fn has_masked(field: Field, ones: &[u8], value: &[u8]) -> Vec<Expression> {
    vec![field.load(FIRST), mask(ones), compare(true, value)]
}

/// Matches if a field is at least `first` and at most `last`.
pub fn has_between(field: Field, first: &[u8], last: &[u8]) -> Vec<Expression> {
    vec![field.load(FIRST), at_least(first), at_most(last)]
}

/// Matches if a field is an element of the set.
pub fn has_in(field: Field, set: &str) -> Vec<Expression> {
    vec![field.load(FIRST), lookup(set, None, false)]
}

/// Matches frames that leave by a port in the set.
pub fn leaves_by(set: &str) -> Vec<Expression> {
    vec![meta(META_OIFNAME, FIRST), lookup(set, None, false)]
}

const META_PACKET_TYPE: u32 = 19;
/// The packet type `PACKET_HOST` (linux/if_packet.h).
const HOST: u8 = 0;

/// Matches frames that were sent to the hardware address of the bridge, or handed over by [`hand_to_host`].
pub fn is_for_host() -> Vec<Expression> {
    vec![meta(META_PACKET_TYPE, FIRST), compare(true, &[HOST])]
}

/// Hands a frame to the IP layer of this host, as if it was sent to the hardware address of the bridge.
pub fn hand_to_host(bridge: [u8; 6]) -> Vec<Expression> {
    let (header, offset, length) = Field::EthernetDestination.place();
    let write = Attributes::new().number(2, header).number(3, offset).number(4, length).number(5, FIRST);
    let set_type = Attributes::new().number(2, META_PACKET_TYPE).number(3, FIRST);
    vec![
        constant(FIRST, &bridge),
        Expression::new("payload", &write),
        constant(FIRST, &[HOST]),
        Expression::new("meta", &set_type),
    ]
}

/// Matches if the name of the port and the fields, in this order, are an element of the set.
pub fn port_with(fields: &[Field], set: &str) -> Vec<Expression> {
    tuple(fields, set, false)
}

/// Matches if the name of the port and the fields, in this order, are not an element of the set.
pub fn port_without(fields: &[Field], set: &str) -> Vec<Expression> {
    tuple(fields, set, true)
}

fn tuple(fields: &[Field], set: &str, inverted: bool) -> Vec<Expression> {
    let mut expressions = vec![meta(META_IIFNAME, FIRST)];
    let mut register = FIRST + (INTERFACE_NAME_BYTES / 4) as u32;
    for field in fields {
        expressions.push(field.load(register));
        register += field.registers();
    }
    expressions.push(lookup(set, None, inverted));
    expressions
}
