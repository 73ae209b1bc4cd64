//! Which address a pod gets. Pure.

use std::collections::HashSet;
use std::net::IpAddr;

use ipnet::IpNet;

/// The bridge's own address: the first of the range.
pub(super) fn gateway(range: IpNet) -> IpAddr {
    nth(range, 1)
}

/// The next address that nobody has, beginning after the one given last, so that one that was given back rests for a while;
/// `None` when all are taken.
pub(super) fn next(range: IpNet, taken: &HashSet<IpAddr>, after: Option<IpAddr>) -> Option<IpAddr> {
    let count = count(range);
    let last = after.filter(|ip| range.contains(ip)).map_or(1, |ip| offset(range, ip));
    // As many as can be taken, and one more: one of them is free.
    let tries = count.min(taken.len() as u128 + 2);
    (1..=tries)
        .map(|step| 2 + (last + step).saturating_sub(2) % count)
        .map(|at| nth(range, at))
        .find(|ip| !taken.contains(ip))
}

/// How many pods the range has addresses for: not its first, the bridge's, and in IPv4 its last.
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
mod tests;
