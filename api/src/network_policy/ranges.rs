//! Ranges of addresses: the blocks of a policy without their exceptions. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, IpSubnets, Ipv4Subnets, Ipv6Subnets};

/// A range of addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
}

impl AddressRange {
    /// Parses a CIDR. Bits after the prefix do not count.
    pub fn parse(cidr: &str) -> Option<Self> {
        let net = cidr.parse::<IpNet>().ok()?;
        Some(Self { first: net.network(), last: net.broadcast() })
    }

    /// Whether the range contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.first.is_ipv4() == address.is_ipv4() && self.first <= address && address <= self.last
    }

    /// The parts of the range that are not in another one.
    pub fn without(self, other: &Self) -> Vec<Self> {
        if self.first.is_ipv4() != other.first.is_ipv4() || other.last < self.first || self.last < other.first
        {
            return vec![self];
        }
        let before = previous(other.first).filter(|last| self.first <= *last);
        let after = next(other.last).filter(|first| *first <= self.last);
        let before = before.map(|last| Self { first: self.first, last });
        let after = after.map(|first| Self { first, last: self.last });
        before.into_iter().chain(after).collect()
    }

    /// The fewest CIDRs that make up the range.
    pub fn cidrs(&self) -> Vec<IpNet> {
        match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                IpSubnets::from(Ipv4Subnets::new(first, last, 0)).collect()
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                IpSubnets::from(Ipv6Subnets::new(first, last, 0)).collect()
            }
            // Both ends have one family.
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => Vec::new(),
        }
    }
}

fn previous(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => Some(Ipv4Addr::from_bits(address.to_bits().checked_sub(1)?).into()),
        IpAddr::V6(address) => Some(Ipv6Addr::from_bits(address.to_bits().checked_sub(1)?).into()),
    }
}

fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => Some(Ipv4Addr::from_bits(address.to_bits().checked_add(1)?).into()),
        IpAddr::V6(address) => Some(Ipv6Addr::from_bits(address.to_bits().checked_add(1)?).into()),
    }
}
