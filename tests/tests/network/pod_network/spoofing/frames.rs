//! Ethernet frames as bytes: IPv4, IPv6, ARP and neighbour discovery, with valid checksums.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub type Mac = [u8; 6];

pub const BROADCAST: Mac = [0xff; 6];
/// An unassigned hardware address.
pub const FOREIGN_MAC: Mac = [0x0a, 0x58, 0x66, 0x66, 0x66, 0x66];
/// A destination that a bridge never forwards.
pub const CONTROL: Mac = [0x01, 0x80, 0xc2, 0, 0, 0x03];

pub const ROUTER_ADVERTISEMENT: u8 = 134;
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
pub const REDIRECT: u8 = 137;

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const VLAN: u16 = 0x8100;
const IPV6: u16 = 0x86dd;

const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// The port of the discard service.
const PORT: u16 = 9;

pub fn ethernet(to: Mac, from: Mac, protocol: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &from, &protocol.to_be_bytes(), payload].concat()
}

/// A frame with the tag of a VLAN behind its addresses.
pub fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
    [&frame[..12], &VLAN.to_be_bytes(), &vlan.to_be_bytes(), &frame[12..]].concat()
}

/// A frame as its receiver sees it: the kernel removes the tag.
pub fn untagged(frame: &[u8]) -> Vec<u8> {
    if frame[12..14] == VLAN.to_be_bytes() { [&frame[..12], &frame[16..]].concat() } else { frame.to_vec() }
}

/// A UDP packet with a text as its payload.
pub fn udp(to: Mac, from: Mac, destination: &str, source: &str, text: &str) -> Vec<u8> {
    let (source, destination) = (address(source), address(destination));
    let length = (8 + text.len()) as u16;
    let header = |sum: u16| [PORT, PORT, length, sum].map(u16::to_be_bytes).concat();
    let sum =
        checksum(&[&pseudo(source, destination, UDP, length)[..], &header(0), text.as_bytes()].concat());
    let payload = [&header(sum)[..], text.as_bytes()].concat();
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            ethernet(to, from, IPV4, &ipv4(source, destination, UDP, &payload))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            ethernet(to, from, IPV6, &ipv6(source, destination, UDP, 64, &payload))
        }
        _ => panic!("{source} and {destination} are of two families"),
    }
}

/// An ARP packet that announces a sender.
pub fn arp(to: Mac, from: Mac, is_reply: bool, sender: (Mac, &str), target: &str) -> Vec<u8> {
    let octets = |text: &str| text.parse::<Ipv4Addr>().unwrap().octets();
    // Ethernet and IPv4, with addresses of 6 and 4 bytes.
    let head = [0, 1, 8, 0, 6, 4, 0, 1 + u8::from(is_reply)];
    let payload = [&head[..], &sender.0, &octets(sender.1), &to, &octets(target)].concat();
    ethernet(to, from, ARP, &payload)
}

/// The extension header between the IPv6 header and a message.
#[derive(Clone, Copy)]
pub enum Behind {
    Nothing,
    /// Destination options, which have no effect here.
    Options,
    /// A hop-by-hop header with the router alert of multicast listener reports.
    RouterAlert,
}

/// An ICMPv6 message.
pub fn icmpv6(from: Mac, addresses: (&str, &str), kind: u8, body: &[u8], behind: Behind) -> Vec<u8> {
    let [destination, source] = [addresses.1, addresses.0].map(|text| text.parse::<Ipv6Addr>().unwrap());
    let message = |sum: u16| [&[kind, 0], &sum.to_be_bytes()[..], body].concat();
    let length = (4 + body.len()) as u16;
    let pseudo = pseudo(source.into(), destination.into(), ICMPV6, length);
    let message = message(checksum(&[&pseudo[..], &message(0)].concat()));
    /// The protocol numbers of destination options and hop-by-hop options.
    const OPTIONS: u8 = 60;
    const FOR_EACH_HOP: u8 = 0;
    let header = match behind {
        Behind::Nothing => None,
        Behind::Options => Some((OPTIONS, [ICMPV6, 0, 1, 4, 0, 0, 0, 0])),
        Behind::RouterAlert => Some((FOR_EACH_HOP, [ICMPV6, 0, 5, 2, 0, 0, 1, 0])),
    };
    let packet = match header {
        None => ipv6(source, destination, ICMPV6, 255, &message),
        Some((next, header)) => ipv6(source, destination, next, 255, &[&header, &message[..]].concat()),
    };
    ethernet(multicast(destination), from, IPV6, &packet)
}

/// The body of a neighbour solicitation or advertisement, with the hardware address of its target.
pub fn neighbour(kind: u8, target: &str, mac: Mac) -> Vec<u8> {
    // The flags are: not solicited, override.
    let flags = if kind == NEIGHBOUR_ADVERTISEMENT { 0x20 } else { 0 };
    let target = target.parse::<Ipv6Addr>().unwrap().octets();
    // Duplicate address detection sends no option.
    let option = if kind == NEIGHBOUR_ADVERTISEMENT { [&[2, 1], &mac[..]].concat() } else { Vec::new() };
    [&[flags, 0, 0, 0], &target[..], &option].concat()
}

/// The body of a router advertisement with a lifetime of half an hour.
pub fn router() -> Vec<u8> {
    [[64, 0, 7, 8], [0; 4], [0; 4]].concat()
}

/// The link-local address of a hardware address.
pub fn link_local([a, b, c, d, e, f]: Mac) -> String {
    let words = [[a ^ 2, b], [c, 0xff], [0xfe, d], [e, f]].map(u16::from_be_bytes);
    format!("fe80::{:x}:{:x}:{:x}:{:x}", words[0], words[1], words[2], words[3])
}

/// The hardware address of a multicast group or of broadcast.
fn multicast(destination: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = destination.octets();
    if destination.is_multicast() { [0x33, 0x33, a, b, c, d] } else { BROADCAST }
}

fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let header = |sum: u16| {
        let head = [&[0x45, 0], &length.to_be_bytes()[..], &[0, 0, 0, 0, 64, protocol]].concat();
        [&head[..], &sum.to_be_bytes(), &source.octets(), &destination.octets()].concat()
    };
    [header(checksum(&header(0))), payload.to_vec()].concat()
}

fn ipv6(source: Ipv6Addr, destination: Ipv6Addr, next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    let head = [&[0x60, 0, 0, 0], &length[..], &[next, hops]].concat();
    [&head[..], &source.octets(), &destination.octets(), payload].concat()
}

/// The pseudo-header of a checksum.
fn pseudo(source: IpAddr, destination: IpAddr, protocol: u8, length: u16) -> Vec<u8> {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    [&octets(source)[..], &octets(destination), &[0, protocol], &length.to_be_bytes()].concat()
}

fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}
