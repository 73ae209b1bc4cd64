//! Allocates pod CIDRs from the cluster CIDRs. Pure.
//!
//! A CIDR that a node requests is kept if it is in a cluster CIDR, is not larger than the node mask and is free.
//! Otherwise the next CIDR after the last one in use is allocated, because a CIDR that was just released may still
//! be in use.

use std::net::IpAddr;

use api::strategy::Json;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde_json::json;

use crate::objects::node::NodeSpec;

/// A cluster CIDR, which is divided into pod CIDRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterCidr {
    pub network: IpNet,
    /// Prefix length of a node's pod CIDR. It is at least that of the network.
    pub node_mask_size: u8,
}

/// Allocates one pod CIDR per cluster CIDR, in order. A requested CIDR is used if possible, otherwise a free one.
/// `taken` contains the CIDRs of other nodes.
pub fn allocate(ranges: &[ClusterCidr], claimed: &[IpNet], taken: &[IpNet]) -> Vec<IpNet> {
    let is_free = |claim: &IpNet| !taken.iter().any(|other| overlap(claim, other));
    let fits = |range: &ClusterCidr, claim: &IpNet| {
        range.network.contains(claim) && claim.prefix_len() >= range.node_mask_size && is_free(claim)
    };
    let given = ranges.iter().map(|range| {
        let claim = claimed.iter().find(|claim| fits(range, claim)).copied();
        claim.or_else(|| free(range, taken))
    });
    let given: Vec<Option<IpNet>> = given.collect();
    // Without a CIDR of the primary range a node cannot run pods.
    if given.first().is_none_or(Option::is_none) {
        return Vec::new();
    }
    given.into_iter().flatten().collect()
}

/// The reason why a node may not have a CIDR. `None` if it may. `taken` contains the CIDRs of other nodes.
pub fn refusal(ranges: &[ClusterCidr], claim: &IpNet, taken: &[IpNet]) -> Option<String> {
    let Some(range) = ranges.iter().find(|range| range.network.contains(claim)) else {
        let all = ranges.iter().map(|range| range.network.to_string()).collect::<Vec<_>>().join(" and ");
        return Some(format!("is not within {all}, the range of the pods of all nodes (--cluster-cidr)"));
    };
    if claim.prefix_len() < range.node_mask_size {
        return Some(format!(
            "is larger than the /{} of {} that each node gets",
            range.node_mask_size, range.network
        ));
    }
    let other = taken.iter().find(|other| overlap(claim, other))?;
    Some(format!("overlaps {other}, which another node or the Services use"))
}

/// The pod CIDRs of a Node, primary first. `None` if one is invalid.
pub fn of(spec: &NodeSpec) -> Option<Vec<IpNet>> {
    let all = match (&*spec.pod_cidrs, &*spec.pod_cidr) {
        ([], "") => &[][..],
        ([], _) => std::slice::from_ref(&spec.pod_cidr),
        (all, _) => all,
    };
    all.iter().map(|text| text.parse::<IpNet>().ok().map(|range| range.trunc())).collect()
}

/// Sets the pod CIDRs of a Node.
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

/// Whether two networks overlap.
pub fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}

/// The first free CIDR after all taken ones. If there is none, the first free one.
fn free(range: &ClusterCidr, taken: &[IpNet]) -> Option<IpNet> {
    let (first, last) = ends(&range.network);
    let width = u32::from(range.network.max_prefix_len());
    // One less than the number of addresses, which would not fit for the whole address space.
    let span = low_bits(width.saturating_sub(u32::from(range.node_mask_size)));
    let inside = taken.iter().filter(|other| overlap(&range.network, other));
    let mut inside: Vec<(u128, u128)> = inside.map(ends).collect();
    inside.sort_unstable();
    let (mut lowest, mut next) = (None, Some(first));
    for (from, until) in inside {
        if let Some(at) = next.filter(|at| at.saturating_add(span) < from) {
            lowest = lowest.or(Some(at));
        }
        // The start of the next CIDR that does not overlap this one.
        let behind = (until | span).checked_add(1);
        next = next.and_then(|at| behind.map(|behind| behind.max(at)));
    }
    let start = next.filter(|at| at.saturating_add(span) <= last).or(lowest)?;
    Some(node_cidr(&range.network, start, range.node_mask_size))
}

/// The first and last address of a network, as numbers.
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

fn node_cidr(of: &IpNet, start: u128, length: u8) -> IpNet {
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
