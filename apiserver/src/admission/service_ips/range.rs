//! Selects addresses and node ports from their ranges. Pure.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The node port range: the default of the stock `--service-node-port-range`.
const PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
/// Number of ports at the start of the range that are kept for explicit requests while others are free.
const STATIC_PORTS: u16 = 86;

/// A service CIDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    /// Network address.
    pub network: IpAddr,
    /// Prefix length.
    pub bits: u8,
}

impl ServiceRange {
    /// The default: that of kubeadm.
    pub const DEFAULT: Self = Self { network: IpAddr::V4(Ipv4Addr::new(10, 96, 0, 0)), bits: 12 };

    /// The first address, which the Service `kubernetes` has.
    pub fn first(&self) -> IpAddr {
        self.nth(1)
    }

    /// The address at an offset from the network address.
    pub fn nth(&self, offset: u128) -> IpAddr {
        let (width, number) = match self.network {
            IpAddr::V4(ip) => (32_u32, u128::from(u32::from(ip))),
            IpAddr::V6(ip) => (128, u128::from(ip)),
        };
        let mask = u128::MAX.checked_shl(width.saturating_sub(u32::from(self.bits))).unwrap_or(0);
        let number = (number & mask).wrapping_add(offset);
        match self.network {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX))),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(number)),
        }
    }

    /// Whether the address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let number = |address: IpAddr| match address {
            IpAddr::V4(ip) => (32_u32, u128::from(u32::from(ip))),
            IpAddr::V6(ip) => (128, u128::from(ip)),
        };
        let ((width, own), (other, network)) = (number(address), number(self.network));
        let rest = width.saturating_sub(u32::from(self.bits));
        width == other && own.checked_shr(rest).unwrap_or(0) == network.checked_shr(rest).unwrap_or(0)
    }
}

/// Formats the range in CIDR notation, such as `10.96.0.0/12`.
impl fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.nth(0), self.bits)
    }
}

/// The IP family of a range, in the notation of Services.
pub fn family(range: &ServiceRange) -> &'static str {
    if range.network.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Whether a Service may have this address. The network and broadcast addresses are excluded.
pub fn holds(range: &ServiceRange, ip: IpAddr) -> bool {
    if ip.is_ipv4() != range.network.is_ipv4() {
        return false;
    }
    let offset = number(ip).wrapping_sub(number(range.nth(0)));
    (1..=last(range)).contains(&offset)
}

/// Returns a free address, which `seed` selects. The lower part of the range is kept for explicit requests while
/// other addresses are free. `taken` is an upper bound of the number of used addresses.
pub fn choose_address(
    range: &ServiceRange,
    seed: u128,
    taken: usize,
    is_free: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let last = last(range);
    let band_end = (last / 16).clamp(16, 256).min(last);
    choose(band_end + 1, last, seed, taken, |offset| is_free(range.nth(offset)))
        .or_else(|| choose(1, band_end, seed, taken, |offset| is_free(range.nth(offset))))
        .map(|offset| range.nth(offset))
}

/// Whether the port is in the node port range.
pub fn holds_port(port: u16) -> bool {
    PORTS.contains(&port)
}

/// The node port range as text.
pub fn shown_ports() -> String {
    format!("{}-{}", PORTS.start(), PORTS.end())
}

/// Returns a free node port, selected like an address by [`choose_address`].
pub fn choose_port(seed: u128, taken: usize, is_free: impl Fn(u16) -> bool) -> Option<u16> {
    let port = |number: u128| u16::try_from(number).unwrap_or(*PORTS.start());
    let (first, last) = (u128::from(*PORTS.start()), u128::from(*PORTS.end()));
    let band_end = first + u128::from(STATIC_PORTS);
    let chosen = choose(band_end, last, seed, taken, |number| is_free(port(number)))
        .or_else(|| choose(first, band_end - 1, seed, taken, |number| is_free(port(number))));
    chosen.map(port)
}

/// Returns a free number from `first` to `last`, searched from a random start. Of `taken + 1` candidates, one is
/// free if any is.
fn choose(first: u128, last: u128, seed: u128, taken: usize, is_free: impl Fn(u128) -> bool) -> Option<u128> {
    let count = last.checked_sub(first)? + 1;
    let tries = count.min(taken as u128 + 1);
    (0..tries).map(|step| first + (seed % count + step) % count).find(|number| is_free(*number))
}

/// The last offset that a Service may have.
fn last(range: &ServiceRange) -> u128 {
    match range.network {
        IpAddr::V4(_) => (1 << 32_u8.saturating_sub(range.bits)) - 2,
        // The size of IPv6 ranges is capped.
        IpAddr::V6(_) => (1 << 128_u8.saturating_sub(range.bits).min(120)) - 1,
    }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

#[cfg(test)]
mod tests {
    //! Tests of first, last and reserved addresses of a range.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn range(text: &str) -> ServiceRange {
        let (network, bits) = text.split_once('/').unwrap();
        ServiceRange { network: network.parse().unwrap(), bits: bits.parse().unwrap() }
    }

    #[test]
    fn service_range_contains_its_usable_addresses() {
        for (text, ip, expected) in [
            ("10.96.0.0/12", "10.96.0.0", false),
            ("10.96.0.0/12", "10.96.0.1", true),
            ("10.96.0.9/12", "10.111.255.254", true),
            ("10.96.0.0/12", "10.111.255.255", false),
            ("10.96.0.0/12", "10.112.0.1", false),
            ("10.96.0.0/12", "10.95.255.255", false),
            ("10.96.0.0/12", "fd00::1", false),
            ("10.0.0.0/30", "10.0.0.2", true),
            ("10.0.0.0/30", "10.0.0.3", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("fd00::/112", "fd00::", false),
            ("fd00::/112", "fd00::ffff", true),
            ("fd00::/112", "fd00::1:0", false),
            ("::/0", "::1", true),
        ] {
            assert_eq!(holds(&range(text), ip.parse().unwrap()), expected, "{text} {ip}");
        }
        assert_eq!(
            (range("10.96.0.9/12").to_string(), shown_ports()),
            ("10.96.0.0/12".into(), "30000-32767".into())
        );
    }

    #[test]
    fn allocation_uses_every_address_once_and_the_static_band_last() {
        let small = range("10.0.0.0/26");
        let mut given = BTreeSet::new();
        while let Some(ip) = choose_address(&small, 0x1234_5678_9abc, given.len(), |ip| !given.contains(&ip))
        {
            let is_first = number(ip) - number(small.network) <= 16;
            assert_eq!(is_first, given.len() >= 46, "{ip}");
            assert!(holds(&small, ip) && given.insert(ip));
        }
        assert_eq!(given.len(), 62);
        let mut ports = BTreeSet::new();
        while let Some(port) = choose_port(7, ports.len(), |port| !ports.contains(&port)) {
            assert!(holds_port(port) && ports.insert(port));
        }
        assert_eq!(ports.len(), 2768);
    }

    proptest! {
        #[test]
        fn chosen_address_is_always_in_the_range(v4 in any::<u32>(), v6 in any::<u128>(), bits in 0_u8..=126, seed in any::<u128>()) {
            for range in [
                ServiceRange { network: IpAddr::V4(v4.into()), bits: bits.min(30) },
                ServiceRange { network: IpAddr::V6(v6.into()), bits },
            ] {
                let ip = choose_address(&range, seed, 0, |_| true).unwrap();
                prop_assert!(holds(&range, ip), "{:?} {}", range, ip);
            }
        }
    }
}
