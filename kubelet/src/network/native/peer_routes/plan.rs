//! Plans the routes and VXLAN devices for peer nodes, from the cluster membership and the kernel's routes. Pure.
//!
//! On one network segment a route is enough. If a router without routes to pods is in between, packets go through a
//! VXLAN.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use sha2::{Digest as _, Sha256};

use super::conflicts::{Conflicts, GrantedNode};
use crate::network::Member;
use crate::network::nft::Family;

/// A MAC address.
pub(super) type Mac = [u8; 6];

/// How an address is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reachability {
    /// The address belongs to this machine.
    Local,
    /// The address is on the network segment of a link.
    SameSegment(Path),
    /// The address is behind a router, or behind a link that does not carry pod addresses.
    Routed(Path),
    /// The address is unreachable, with the reason.
    None(String),
}

/// How packets leave this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path {
    /// The index of the egress link.
    pub link: u32,
    /// The MTU in bytes.
    pub mtu: u32,
    /// The source address.
    pub from: Option<IpAddr>,
    /// The address of the router, if any.
    pub gateway: Option<IpAddr>,
}

pub(super) struct PlanInput<'a> {
    /// The name of this node.
    pub node: &'a str,
    /// The node's pod CIDRs, the primary one first.
    pub current: &'a [IpNet],
    /// The peer nodes, the oldest first.
    pub others: &'a [Member],
    /// How the addresses of the peers are reached.
    pub reachability: &'a BTreeMap<IpAddr, Reachability>,
    /// The addresses of the API servers.
    pub servers: &'a [IpAddr],
    /// Names of the peers on this machine.
    pub local_nodes: &'a BTreeSet<String>,
}

/// The desired state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The next hop of each pod CIDR.
    pub routes: BTreeMap<IpNet, Hop>,
    /// The node of each pod CIDR.
    pub owners: BTreeMap<IpNet, String>,
    /// The VXLAN devices by underlay family.
    pub tunnels: BTreeMap<Family, VxlanConfig>,
    /// The pod CIDRs of the peers, towards which pods are not masqueraded.
    pub cluster: Vec<IpNet>,
    /// Warnings, one sentence each.
    pub warnings: BTreeSet<String>,
}

/// The next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    /// The peer itself, through a link.
    Direct {
        /// The address of the peer.
        via: IpAddr,
        /// The index of the link.
        link: u32,
    },
    /// The VXLAN device of the peer.
    Vxlan {
        underlay: Family,
        /// The device's address inside the VXLAN.
        via: IpAddr,
    },
}

/// Configuration of this node's VXLAN device, with all peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct VxlanConfig {
    /// The device's MAC address.
    pub mac: Mac,
    /// The MTU in bytes.
    pub mtu: u32,
    /// The device's addresses, so that replies to the node come back through the VXLAN.
    pub addresses: Vec<IpAddr>,
    /// Neighbour entries: MAC addresses of the peers by address inside the VXLAN.
    pub neighbours: BTreeMap<IpAddr, Mac>,
    /// FDB entries: underlay addresses of the peers by MAC address.
    pub forwarding: BTreeMap<Mac, IpAddr>,
}

/// The overhead of VXLAN in bytes: inner Ethernet, VXLAN, UDP and outer IP headers.
fn overhead(underlay: Family) -> u32 {
    match underlay {
        Family::V4 => 14 + 8 + 8 + 20,
        Family::V6 => 14 + 8 + 8 + 40,
    }
}

/// MTU in bytes if no link defines one.
const MTU: u32 = 1500;

/// The MAC address of a node's VXLAN device. It is derived from the node's first pod CIDR, so that every node can
/// compute it.
pub(super) fn mac(first: &IpNet) -> Mac {
    let digest = Sha256::digest(first.trunc().to_string());
    // A locally administered unicast address.
    [0x02, digest[0], digest[1], digest[2], digest[3], digest[4]]
}

/// Computes the plan.
pub(super) fn plan(input: &PlanInput<'_>) -> Plan {
    let mut plan = Plan::default();
    let (granted, warnings) = Conflicts::resolve(input);
    plan.warnings = warnings;
    for GrantedNode { member, addresses, ranges } in granted {
        plan.cluster.extend(&ranges);
        if ranges.is_empty() || input.local_nodes.contains(&member.name) {
            continue;
        }
        for range in ranges {
            plan.owners.insert(range, member.name.clone());
            if let Err(why) = plan.add_route(input, member, &addresses, range) {
                plan.warnings.insert(why);
            }
        }
    }
    plan
}

impl Plan {
    fn add_route(
        &mut self,
        input: &PlanInput<'_>,
        member: &Member,
        addresses: &[IpAddr],
        range: IpNet,
    ) -> Result<(), String> {
        let is_same_family = |address: &IpAddr| address.is_ipv4() == range.addr().is_ipv4();
        // Addresses of the CIDR's own family come first, because they may need no VXLAN.
        let same_family = addresses.iter().filter(|address| is_same_family(address));
        let others = addresses.iter().filter(|address| !is_same_family(address));
        let mut why = Vec::new();
        for address in same_family.chain(others) {
            match input.reachability.get(address) {
                Some(Reachability::SameSegment(path)) if is_same_family(address) => {
                    let hop = Hop::Direct { via: *address, link: path.link };
                    self.routes.insert(range, hop);
                    return Ok(());
                }
                Some(Reachability::SameSegment(path) | Reachability::Routed(path)) => {
                    self.tunnel(input, member, *address, path, range);
                    return Ok(());
                }
                Some(Reachability::None(reason)) => why.push(format!("{address}: {reason}")),
                Some(Reachability::Local) | None => {}
            }
        }
        let Member { name, .. } = member;
        match why.is_empty() {
            // A warning about its addresses exists already.
            true if !member.addresses.is_empty() => Ok(()),
            true => Err(format!(
                "pods of node {name} are unreachable, because the node reports no address: see its --node-ip"
            )),
            false => Err(format!(
                "pods of node {name} are unreachable, because this machine has no route to the node ({}): add a \
                 route, or give node {name} a reachable address with --node-ip",
                why.join("; ")
            )),
        }
    }

    fn tunnel(&mut self, input: &PlanInput<'_>, member: &Member, address: IpAddr, path: &Path, range: IpNet) {
        let (Some(own), Some(first)) = (input.current.first(), member.ranges.first()) else { return };
        let underlay = Family::of(address);
        let outside = if path.mtu == 0 { MTU } else { path.mtu };
        let mtu = outside.saturating_sub(overhead(underlay));
        let tunnel = self.tunnels.entry(underlay).or_insert_with(|| VxlanConfig {
            mac: mac(own),
            mtu,
            addresses: input.current.iter().map(IpNet::network).collect(),
            ..VxlanConfig::default()
        });
        tunnel.mtu = tunnel.mtu.min(mtu);
        let (via, theirs) = (range.network(), mac(first));
        tunnel.neighbours.insert(via, theirs);
        tunnel.forwarding.insert(theirs, address);
        self.routes.insert(range, Hop::Vxlan { underlay, via });
    }
}

#[cfg(test)]
mod tests;
