//! Sets of address intervals, in the form that the kernel uses. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::Family;

/// The start of an interval, or the first address after its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IntervalEdge {
    /// The address of the edge.
    pub key: Vec<u8>,
    /// True for the end of an interval, false for its start.
    pub is_end: bool,
}

/// The edges of the intervals of one family. Overlapping CIDRs are merged, because the kernel rejects them.
pub fn edges(family: Family, cidrs: &[IpNet]) -> BTreeSet<IntervalEdge> {
    let of_family = cidrs.iter().filter(|cidr| Family::of(cidr.addr()) == family);
    let mut ends: Vec<(u128, u128)> =
        of_family.map(|cidr| (number(cidr.network()), number(cidr.broadcast()))).collect();
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
        edges.insert(IntervalEdge { key: key(first), is_end: false });
        // An interval up to the highest address has no end element.
        if last < highest {
            edges.insert(IntervalEdge { key: key(last + 1), is_end: true });
        }
    }
    edges
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use ipnet::IpNet;

    use super::{Family, edges};

    fn cidr(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn check(family: Family, cidrs: &[&str], expected: &[(&[u8], bool)]) {
        let cidrs: Vec<IpNet> = cidrs.iter().map(|text| cidr(text)).collect();
        let found: Vec<_> =
            edges(family, &cidrs).into_iter().map(|edge| (edge.key.clone(), edge.is_end)).collect();
        let expected: Vec<_> = expected.iter().map(|(key, is_end)| (key.to_vec(), *is_end)).collect();
        assert_eq!(found, expected, "{cidrs:?}");
    }

    #[test]
    fn adjacent_ranges_are_merged() {
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
    fn intervals_ignore_the_other_family_and_end_at_the_highest_address() {
        check(Family::V4, &["fd00::/8"], &[]);
        check(Family::V4, &["0.0.0.0/0"], &[(&[0; 4], false)]);
        check(Family::V4, &["255.255.255.255/32"], &[(&[255; 4], false)]);
        check(Family::V6, &["::/0"], &[(&[0; 16], false)]);
        assert_eq!(edges(Family::V6, &[cidr("fd00::/64")]).len(), 2);
    }

    #[test]
    fn prefix_length_above_the_address_size_is_rejected() {
        assert!("10.0.0.0/33".parse::<IpNet>().is_err());
        assert!("fd00::/128".parse::<IpNet>().is_ok());
    }
}
