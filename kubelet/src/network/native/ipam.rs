//! IPAM: selects the addresses of pods. Pure.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

/// The bridge's address, which is the first host address of the CIDR.
pub(super) fn gateway(range: IpNet) -> IpAddr {
    nth(range, 1)
}

/// The next free address after the last assigned one. A released address is therefore not used again at once.
/// `None` if no address is free.
pub(super) fn next(range: IpNet, taken: &HashSet<IpAddr>, after: Option<IpAddr>) -> Option<IpAddr> {
    let count = count(range);
    let last = after.filter(|ip| range.contains(ip)).map_or(1, |ip| offset(range, ip));
    // One more try than there are taken addresses finds a free one.
    let tries = count.min(taken.len() as u128 + 2);
    (1..=tries)
        .map(|step| 2 + (last + step).saturating_sub(2) % count)
        .map(|at| nth(range, at))
        .find(|ip| !taken.contains(ip))
}

/// The number of pod addresses in a CIDR: all but the network address, the bridge's address and the IPv4 broadcast
/// address.
pub(super) fn count(range: IpNet) -> u128 {
    let bits = u32::from(range.max_prefix_len() - range.prefix_len());
    let all = 1_u128.checked_shl(bits).unwrap_or(u128::MAX);
    all.saturating_sub(if range.addr().is_ipv4() { 3 } else { 2 }).max(1)
}

fn nth(range: IpNet, at: u128) -> IpAddr {
    match range.network() {
        IpAddr::V4(ip) => IpAddr::V4((u32::from(ip) + u32::try_from(at).unwrap_or_default()).into()),
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) + at).into()),
    }
}

fn offset(range: IpNet, ip: IpAddr) -> u128 {
    match (range.network(), ip) {
        (IpAddr::V4(first), IpAddr::V4(ip)) => (u32::from(ip) - u32::from(first)).into(),
        (IpAddr::V6(first), IpAddr::V6(ip)) => u128::from(ip) - u128::from(first),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    //! Tests that addresses are allocated in turn, each once, and reserved ones never.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::HashSet;
    use std::net::IpAddr;

    use ipnet::IpNet;

    use super::{count, gateway, next};

    fn range(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ipam_allocates_every_address_once() {
        for (net, first, last) in
            [("10.1.2.0/28", "10.1.2.2", "10.1.2.14"), ("fd00::/124", "fd00::2", "fd00::f")]
        {
            let range = range(net);
            let (mut taken, mut before) = (HashSet::new(), None);
            let mut given = Vec::new();
            while let Some(ip) = next(range, &taken, before) {
                assert!(taken.insert(ip), "{ip} twice");
                given.push(ip);
                before = Some(ip);
            }
            assert_eq!((given[0], *given.last().unwrap()), (ip(first), ip(last)));
            assert_eq!(given.len() as u128, count(range));
            assert!(!taken.contains(&gateway(range)));
            // A released address is allocated again.
            let back = given[given.len() / 2];
            taken.remove(&back);
            assert_eq!(next(range, &taken, before), Some(back));
        }
    }

    #[test]
    fn ipam_reuses_released_addresses_last() {
        let range = range("10.1.2.0/24");
        let given = next(range, &HashSet::new(), None).unwrap();
        assert_eq!(next(range, &HashSet::new(), Some(given)), Some(ip("10.1.2.3")));
        assert_eq!(next(range, &HashSet::new(), Some(ip("10.1.2.254"))), Some(ip("10.1.2.2")));
        // The CIDR has changed.
        assert_eq!(next(range, &HashSet::new(), Some(ip("10.9.9.9"))), Some(ip("10.1.2.2")));
    }
}
