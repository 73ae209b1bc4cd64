//! Resolves conflicts between nodes that claim the same address or pod CIDR: the older node wins. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::plan::{PlanInput, Reachability};
use crate::network::native::pod_cidr::list;
use crate::network::{Member, meet};

/// The addresses and pod CIDRs of a peer node after conflicts are resolved.
pub(super) struct GrantedNode<'a> {
    /// The peer node.
    pub member: &'a Member,
    /// The usable addresses of the node, one per family.
    pub addresses: Vec<IpAddr>,
    /// The pod CIDRs that no older node claims.
    pub ranges: Vec<IpNet>,
}

/// The reserved addresses and the pod CIDRs that were assigned so far, with which later nodes may conflict.
pub(super) struct Conflicts<'a> {
    input: &'a PlanInput<'a>,
    /// Addresses that no pod CIDR may contain, each with a description.
    hosts: BTreeMap<IpAddr, String>,
    /// Assigned pod CIDRs with their nodes, by network address. They do not overlap.
    assigned: BTreeMap<IpAddr, (IpNet, &'a str)>,
    warnings: BTreeSet<String>,
}

impl<'a> Conflicts<'a> {
    /// Resolves all conflicts. Returns warnings too.
    pub fn resolve(input: &'a PlanInput<'a>) -> (Vec<GrantedNode<'a>>, BTreeSet<String>) {
        let mut conflicts = Self {
            input,
            hosts: reserved_addresses(input),
            assigned: BTreeMap::new(),
            warnings: BTreeSet::new(),
        };
        let mut addresses = BTreeMap::new();
        let mut granted = Vec::new();
        for member in input.others {
            let addresses = conflicts.addresses(member, &mut addresses);
            let ranges = conflicts.ranges(member);
            granted.push(GrantedNode { member, addresses, ranges });
        }
        (granted, conflicts.warnings)
    }

    fn addresses(
        &mut self,
        member: &'a Member,
        taken: &mut BTreeMap<IpAddr, Vec<&'a Member>>,
    ) -> Vec<IpAddr> {
        // A node without pods needs no route.
        if member.ranges.is_empty() {
            return Vec::new();
        }
        let Member { name, .. } = member;
        let (mut kept, mut misplaced, mut disputed) = (Vec::new(), Vec::new(), Vec::new());
        for address in usable_addresses(member) {
            if self.input.reachability.get(&address) == Some(&Reachability::Local) {
                // Several nodes of one machine share its address.
                if self.input.local_nodes.contains(name) { &mut kept } else { &mut misplaced }.push(address);
                continue;
            }
            let at_it = taken.entry(address).or_default();
            match at_it.iter().find(|older| older.collides(member.port)) {
                Some(older) => disputed.push((address, older.name.as_str())),
                None => {
                    at_it.push(member);
                    kept.push(address);
                }
            }
        }
        // The node may have another address.
        let unreachable =
            if kept.is_empty() { format!("pods of {name} are unreachable; ") } else { String::new() };
        if let Some((_, older)) = disputed.first() {
            let addresses: Vec<IpAddr> = disputed.iter().map(|(address, _)| *address).collect();
            let addresses = list(&addresses, " and ");
            self.warnings.insert(format!(
                "nodes {older} and {name} both report {addresses}: {older} is older and keeps it; \
                 {unreachable}give {name} its own address with --node-ip"
            ));
        }
        if !misplaced.is_empty() {
            let (node, addresses) = (self.input.node, list(&misplaced, " and "));
            self.warnings.insert(format!(
                "node {name} reports {addresses}, which belongs to this machine and node {node}: {unreachable}give \
                 one of them its own address with --node-ip, or delete node {name} from the cluster if it no \
                 longer exists"
            ));
        }
        kept
    }

    fn ranges(&mut self, member: &'a Member) -> Vec<IpNet> {
        let mut kept: Vec<IpNet> = Vec::new();
        for range in member.ranges.iter().map(IpNet::trunc) {
            // A duplicate.
            if kept.iter().any(|other| meet(other, &range)) {
                continue;
            }
            match self.refusal(member, range) {
                Some(why) => {
                    self.warnings.insert(why);
                    // The MAC address of a VXLAN device is derived from the first CIDR, so the others are useless
                    // without it.
                    if kept.is_empty() {
                        return kept;
                    }
                }
                None => {
                    self.assigned.insert(range.network(), (range, &member.name));
                    kept.push(range);
                }
            }
        }
        kept
    }

    /// The reason why a node does not get a pod CIDR.
    fn refusal(&self, member: &Member, range: IpNet) -> Option<String> {
        let Member { name, is_older, .. } = member;
        let node = self.input.node;
        if let Some(why) = api::pod_cidr::reject_special_use(&range) {
            return Some(format!(
                "the range {range} of node {name} {why}; its pods are unreachable; assign another pod CIDR to the \
                 node"
            ));
        }
        if let Some(own) = self.input.current.iter().find(|own| meet(own, &range)) {
            let (older, younger) = if *is_older { (name.as_str(), node) } else { (node, name.as_str()) };
            return Some(format!(
                "nodes {older} and {younger} both have the pod CIDR {}: pods of {name} are unreachable from \
                 {node}; {older} is older and keeps it: delete node {younger} from the cluster and let it join \
                 again, so that it gets another pod CIDR",
                common_part(own, &range)
            ));
        }
        if let Some((other, older)) = self.overlapping(&range) {
            return Some(format!(
                "nodes {older} and {name} both have the pod CIDR {}: {older} is older and keeps it, pods of {name} \
                 are unreachable; delete node {name} from the cluster and let it join again, so that it gets \
                 another pod CIDR",
                common_part(&other, &range)
            ));
        }
        let (address, whose) = self.hosts.range(range.network()..=range.broadcast()).next()?;
        Some(format!(
            "the pod CIDR {range} of node {name} contains {address}, {whose}: its pods are unreachable, because a \
             route to them would make {address} unreachable; assign another pod CIDR to {name}"
        ))
    }

    /// Returns an assigned pod CIDR that overlaps this one.
    fn overlapping(&self, range: &IpNet) -> Option<(IpNet, &'a str)> {
        let before = self.assigned.range(..=range.network()).next_back();
        let behind = self.assigned.range(range.network()..).next();
        before.into_iter().chain(behind).map(|(_, found)| *found).find(|(other, _)| meet(other, range))
    }
}

/// The first address of each family.
pub(super) fn usable_addresses(member: &Member) -> impl Iterator<Item = IpAddr> {
    let first = |is_v4| member.addresses.iter().copied().find(move |address| address.is_ipv4() == is_v4);
    first(true).into_iter().chain(first(false))
}

/// Addresses that no pod CIDR may contain, because the machines at them would become unreachable.
fn reserved_addresses(input: &PlanInput<'_>) -> BTreeMap<IpAddr, String> {
    let mut all = BTreeMap::new();
    all.extend(input.servers.iter().map(|server| (*server, "the address of the API server".to_owned())));
    for way in input.reachability.values() {
        if let Reachability::SameSegment(path) | Reachability::Routed(path) = way {
            all.extend(path.gateway.map(|gateway| (gateway, "the router to other nodes".to_owned())));
            all.extend(path.from.map(|from| (from, format!("the address of node {}", input.node))));
        }
    }
    for member in input.others {
        let of_node = format!("the address of node {}", member.name);
        all.extend(usable_addresses(member).map(|address| (address, of_node.clone())));
    }
    all
}

/// The smaller of two overlapping CIDRs.
fn common_part(one: &IpNet, other: &IpNet) -> IpNet {
    if one.contains(other) { *other } else { *one }
}
