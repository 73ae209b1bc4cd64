//! Addresses that begin alike, and sets of them as the kernel keeps ranges. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::Family;

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    /// The addresses that begin with so many bits of an address; none if it has not so many.
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        (u32::from(bits) <= family(address).bits()).then_some(Self { address, bits })
    }

    /// The family of its addresses.
    pub fn family(self) -> Family {
        family(self.address)
    }

    /// The bits that are the same.
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// An address of it, of as many bytes as the family has.
    pub fn octets(self) -> Vec<u8> {
        match self.address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        }
    }

    /// The first and the last address, as numbers.
    fn ends(self) -> (u128, u128) {
        let number = match self.address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let free = self.family().bits() - u32::from(self.bits);
        let rest = 1u128.checked_shl(free).map_or(u128::MAX, |size| size - 1);
        (number & !rest, number | rest)
    }
}

/// Where a range begins, or the first address behind one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The address.
    pub key: Vec<u8>,
    /// Whether it is behind the range.
    pub is_end: bool,
}

/// The edges of ranges that hold the addresses of one family; the kernel takes none that overlap.
pub fn edges(family: Family, cidrs: &[Cidr]) -> BTreeSet<Edge> {
    let mut ends: Vec<(u128, u128)> =
        cidrs.iter().filter(|cidr| cidr.family() == family).map(|cidr| cidr.ends()).collect();
    ends.sort_unstable();
    let mut ranges: Vec<(u128, u128)> = Vec::new();
    for (first, last) in ends {
        match ranges.last_mut() {
            Some((_, before)) if first <= before.saturating_add(1) => *before = last.max(*before),
            _ => ranges.push((first, last)),
        }
    }
    let length = usize::from(family.address_length());
    let key = |number: u128| number.to_be_bytes()[16 - length..].to_vec();
    let highest = if family.bits() == 128 { u128::MAX } else { (1 << family.bits()) - 1 };
    let mut edges = BTreeSet::new();
    for (first, last) in ranges {
        edges.insert(Edge { key: key(first), is_end: false });
        // A range up to the highest address has nothing behind it.
        if last < highest {
            edges.insert(Edge { key: key(last + 1), is_end: true });
        }
    }
    edges
}

fn family(address: IpAddr) -> Family {
    if address.is_ipv4() { Family::V4 } else { Family::V6 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::{Cidr, Family, edges};

    fn cidr(text: &str) -> Cidr {
        let (address, bits) = text.split_once('/').unwrap();
        Cidr::new(address.parse().unwrap(), bits.parse().unwrap()).unwrap()
    }

    fn check(family: Family, cidrs: &[&str], expected: &[(&[u8], bool)]) {
        let cidrs: Vec<Cidr> = cidrs.iter().map(|text| cidr(text)).collect();
        let found: Vec<_> =
            edges(family, &cidrs).into_iter().map(|edge| (edge.key.clone(), edge.is_end)).collect();
        let expected: Vec<_> = expected.iter().map(|(key, is_end)| (key.to_vec(), *is_end)).collect();
        assert_eq!(found, expected, "{cidrs:?}");
    }

    #[test]
    fn ranges_that_touch_are_one() {
        check(Family::V4, &["10.1.2.3/16"], &[(&[10, 1, 0, 0], false), (&[10, 2, 0, 0], true)]);
        let touching = ["10.2.0.0/16", "10.0.0.0/16", "10.1.0.0/16", "10.1.7.0/24"];
        check(Family::V4, &touching, &[(&[10, 0, 0, 0], false), (&[10, 3, 0, 0], true)]);
        let apart = ["10.0.0.0/16", "10.2.0.0/16"];
        let edges: [(&[u8], bool); 4] = [
            (&[10, 0, 0, 0], false),
            (&[10, 1, 0, 0], true),
            (&[10, 2, 0, 0], false),
            (&[10, 3, 0, 0], true),
        ];
        check(Family::V4, &apart, &edges);
    }

    #[test]
    fn the_other_family_does_not_count_and_nothing_is_behind_the_highest() {
        check(Family::V4, &["fd00::/8"], &[]);
        check(Family::V4, &["0.0.0.0/0"], &[(&[0; 4], false)]);
        check(Family::V4, &["255.255.255.255/32"], &[(&[255; 4], false)]);
        check(Family::V6, &["::/0"], &[(&[0; 16], false)]);
        assert_eq!(edges(Family::V6, &[cidr("fd00::/64")]).len(), 2);
    }

    #[test]
    fn an_address_has_no_more_bits_than_it_has() {
        assert_eq!(Cidr::new("10.0.0.0".parse().unwrap(), 33), None);
        assert!(Cidr::new("fd00::".parse().unwrap(), 128).is_some());
    }
}
