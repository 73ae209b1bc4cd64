//! Which piece of the cluster's ranges a node gets for its pods. Pure.
//!
//! What a node claims it keeps where that is a piece of a range, no larger than others get, and nobody else's. A node that claims
//! nothing gets the piece behind the last one that is taken: a range that has just come free may still be in use somewhere.

use std::net::IpAddr;

use api::strategy::Json;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde_json::{Value, json};

/// A range of the cluster, which is handed out in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodRange {
    /// All of it.
    pub network: IpNet,
    /// The length of the prefix of a piece; no shorter than that of the network.
    pub piece: u8,
}

/// A piece of each range, in their order, as far as there are any: what is claimed where that may be, otherwise a free one. `taken`
/// is what others have.
pub fn give(ranges: &[PodRange], claimed: &[IpNet], taken: &[IpNet]) -> Vec<IpNet> {
    let is_free = |claim: &IpNet| !taken.iter().any(|other| overlap(claim, other));
    let fits = |range: &PodRange, claim: &IpNet| {
        range.network.contains(claim) && claim.prefix_len() >= range.piece && is_free(claim)
    };
    let given = ranges.iter().map(|range| {
        let claim = claimed.iter().find(|claim| fits(range, claim)).copied();
        claim.or_else(|| free(range, taken))
    });
    let given: Vec<Option<IpNet>> = given.collect();
    // The first range is the primary one: a node is of no use to pods that has none of it.
    if given.first().is_none_or(Option::is_none) {
        return Vec::new();
    }
    given.into_iter().flatten().collect()
}

/// Why a node cannot have a range, if so; `taken` is what others have.
pub fn refusal(ranges: &[PodRange], claim: &IpNet, taken: &[IpNet]) -> Option<String> {
    let Some(range) = ranges.iter().find(|range| range.network.contains(claim)) else {
        let all = ranges.iter().map(|range| range.network.to_string()).collect::<Vec<_>>().join(" and ");
        return Some(format!(
            "is not within {all}, of which pods of all nodes have their addresses (--cluster-cidr)"
        ));
    };
    if claim.prefix_len() < range.piece {
        return Some(format!("is larger than the /{} of {} that a node gets", range.piece, range.network));
    }
    let other = taken.iter().find(|other| overlap(claim, other))?;
    Some(format!("has addresses of {other}, which another node or the services have"))
}

/// The ranges in a Node, the primary one first; `None` when one of them is none.
pub fn of(node: &Json) -> Option<Vec<IpNet>> {
    let Some(spec) = node.get("spec") else { return Some(Vec::new()) };
    let all: Vec<&str> = match spec.get("podCIDRs").and_then(Value::as_array).filter(|all| !all.is_empty()) {
        Some(all) => all.iter().filter_map(Value::as_str).collect(),
        None => {
            let first = spec.get("podCIDR").and_then(Value::as_str);
            first.filter(|text| !text.is_empty()).into_iter().collect()
        }
    };
    all.into_iter().map(|text| text.parse::<IpNet>().ok().map(|range| range.trunc())).collect()
}

/// Writes ranges into a Node.
pub fn set(node: &mut Json, ranges: &[IpNet]) {
    let spec = node.entry("spec").or_insert_with(|| json!({}));
    let Some(spec) = spec.as_object_mut() else { return };
    match ranges.first() {
        Some(first) => {
            let all: Vec<String> = ranges.iter().map(ToString::to_string).collect();
            spec.insert("podCIDR".to_owned(), first.to_string().into());
            spec.insert("podCIDRs".to_owned(), all.into());
        }
        None => {
            spec.remove("podCIDR");
            spec.remove("podCIDRs");
        }
    }
}

/// Whether an address is in both.
pub fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// The first free piece behind all that are taken, or else the first free one.
fn free(range: &PodRange, taken: &[IpNet]) -> Option<IpNet> {
    let (first, last) = ends(&range.network);
    let width = u32::from(range.network.max_prefix_len());
    // One less than the addresses of a piece: that of all addresses there are does not fit.
    let span = low_bits(width.saturating_sub(u32::from(range.piece)));
    let inside = taken.iter().filter(|other| overlap(&range.network, other));
    let mut inside: Vec<(u128, u128)> = inside.map(ends).collect();
    inside.sort_unstable();
    let (mut lowest, mut next) = (None, Some(first));
    for (from, until) in inside {
        if let Some(at) = next.filter(|at| at.saturating_add(span) < from) {
            lowest = lowest.or(Some(at));
        }
        // Where the next piece begins that has nothing of this one.
        let behind = (until | span).checked_add(1);
        next = next.and_then(|at| behind.map(|behind| behind.max(at)));
    }
    let start = next.filter(|at| at.saturating_add(span) <= last).or(lowest)?;
    Some(piece(&range.network, start, range.piece))
}

/// The first and the last address of a range, as numbers.
fn ends(range: &IpNet) -> (u128, u128) {
    (number(range.network()), number(range.broadcast()))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

fn low_bits(count: u32) -> u128 {
    1_u128.checked_shl(count).map_or(u128::MAX, |bit| bit - 1)
}

fn piece(of: &IpNet, start: u128, length: u8) -> IpNet {
    match of {
        IpNet::V4(_) => {
            let start = u32::try_from(start).unwrap_or(u32::MAX);
            Ipv4Net::new(start.into(), length).map_or(*of, IpNet::V4)
        }
        IpNet::V6(_) => Ipv6Net::new(start.into(), length).map_or(*of, IpNet::V6),
    }
}

#[cfg(test)]
mod tests;
