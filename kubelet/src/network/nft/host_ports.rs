//! Host ports as keys and values of nftables maps, and the changes between two sets of them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Family;

/// A protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// The IP protocol number.
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }
}

impl From<api::network_policy::Protocol> for Protocol {
    fn from(protocol: api::network_policy::Protocol) -> Self {
        use api::network_policy::Protocol;
        match protocol {
            Protocol::Tcp => Self::Tcp,
            Protocol::Udp => Self::Udp,
            Protocol::Sctp => Self::Sctp,
        }
    }
}

/// A host port of one address family that leads to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    at: IpAddr,
    protocol: Protocol,
    number: u16,
    to: SocketAddr,
}

impl Port {
    /// Creates a host port at one address of the host, or at all addresses of a family (`0.0.0.0`, `::`). Returns
    /// `None` if `at` and `to` differ in family, because nothing translates between families.
    pub fn new(at: IpAddr, protocol: Protocol, number: u16, to: SocketAddr) -> Option<Self> {
        // The kernel does not return flow info and scope ID, so they would never compare equal.
        let to = SocketAddr::new(to.ip(), to.port());
        (at.is_ipv4() == to.is_ipv4()).then_some(Self { at, protocol, number, to })
    }

    /// Address, protocol and number on the host. Two ports with the same values conflict.
    pub fn place(&self) -> (IpAddr, Protocol, u16) {
        (self.at, self.protocol, self.number)
    }

    /// The port of the pod.
    pub fn target(&self) -> SocketAddr {
        self.to
    }

    /// The map that contains the port.
    pub fn map(&self) -> Map {
        Map { family: Family::of(self.at), by_address: !self.at.is_unspecified() }
    }

    /// The key in the map.
    pub fn key(&self) -> Vec<u8> {
        let mut key = if self.at.is_unspecified() { Vec::new() } else { address_bytes(self.at) };
        // Each part of a key takes whole registers of four bytes.
        key.extend([self.protocol.number(), 0, 0, 0]);
        key.extend(port_bytes(self.number));
        key
    }

    /// The value in the map.
    pub fn value(&self) -> Vec<u8> {
        let mut value = address_bytes(self.to.ip());
        value.extend(port_bytes(self.to.port()));
        value
    }

    /// Reads a map element. `None` if the kubelet did not create it.
    pub fn read(map: Map, key: &[u8], value: &[u8]) -> Option<Self> {
        let (at, rest) = if map.by_address {
            read_address(map.family, key)?
        } else {
            (map.family.unspecified_address(), key)
        };
        let protocol = Protocol::ALL.into_iter().find(|known| Some(&known.number()) == rest.first())?;
        let (to, port) = read_address(map.family, value)?;
        Self::new(at, protocol, read_port(rest.get(4..)?)?, SocketAddr::new(to, read_port(port)?))
    }
}

/// One of the maps of host ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// The address family.
    pub family: Family,
    /// Whether the keys contain the host's address.
    pub by_address: bool,
}

impl Map {
    /// All maps, in the order of lookup.
    pub const ALL: [Self; 4] = [
        Self { family: Family::V4, by_address: true },
        Self { family: Family::V4, by_address: false },
        Self { family: Family::V6, by_address: true },
        Self { family: Family::V6, by_address: false },
    ];

    /// The name of the map.
    pub fn name(self) -> &'static str {
        match (self.family, self.by_address) {
            (Family::V4, true) => "ports_at",
            (Family::V4, false) => "ports",
            (Family::V6, true) => "ports_at6",
            (Family::V6, false) => "ports6",
        }
    }
}

/// Changes of host ports, applied in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub remove: Vec<Port>,
    pub add: Vec<Port>,
}

impl Changes {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.add.is_empty()
    }
}

/// Computes the changes from the existing ports to the desired ones. Of conflicting ports, the first one is used.
pub fn plan(wanted: &BTreeSet<Port>, there: &BTreeSet<Port>) -> Changes {
    let mut places = BTreeMap::new();
    for port in wanted {
        places.entry(port.place()).or_insert(*port);
    }
    let wanted: BTreeSet<Port> = places.into_values().collect();
    Changes {
        remove: there.difference(&wanted).copied().collect(),
        add: wanted.difference(there).copied().collect(),
    }
}

/// The bytes of an address in network byte order.
pub(super) fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Reads an address from the start of the bytes. Also returns the remaining bytes.
pub(super) fn read_address(family: Family, bytes: &[u8]) -> Option<(IpAddr, &[u8])> {
    match family {
        Family::V4 => {
            let (address, rest) = bytes.split_first_chunk::<4>()?;
            Some((Ipv4Addr::from(*address).into(), rest))
        }
        Family::V6 => {
            let (address, rest) = bytes.split_first_chunk::<16>()?;
            Some((Ipv6Addr::from(*address).into(), rest))
        }
    }
}

/// The bytes of a port in network byte order, padded to a register.
pub(super) fn port_bytes(port: u16) -> [u8; 4] {
    let [high, low] = port.to_be_bytes();
    [high, low, 0, 0]
}

fn read_port(bytes: &[u8]) -> Option<u16> {
    let [high, low, _, _] = *bytes else { return None };
    Some(u16::from_be_bytes([high, low]))
}

#[cfg(test)]
mod tests;
