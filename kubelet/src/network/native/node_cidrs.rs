//! Decides which pod CIDRs are this node's own. Pure.

use std::net::IpAddr;

use ipnet::IpNet;

use super::ipam;
use super::pod_cidr::list;
use crate::network::{Member, Members, meet};

/// The pod CIDRs of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeCidrs {
    /// CIDRs for new pods, the primary one first.
    pub current: Vec<IpNet>,
    /// CIDRs of which older pods may still have addresses.
    pub former: Vec<IpNet>,
}

impl NodeCidrs {
    /// All CIDRs in which this node has pods.
    pub fn all(&self) -> Vec<IpNet> {
        [&self.current[..], &self.former].concat()
    }

    /// The addresses of the bridge, those for new pods first.
    pub fn gateways(&self) -> Vec<IpAddr> {
        self.current.iter().chain(&self.former).map(|range| ipam::gateway(*range)).collect()
    }

    /// Whether all addresses are in these CIDRs.
    pub fn has(&self, addresses: &[IpAddr]) -> bool {
        addresses.iter().all(|ip| self.current.iter().chain(&self.former).any(|range| range.contains(ip)))
    }
}

/// The pod CIDRs that follow from the cluster membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// The pod CIDRs that the node uses after the decision.
    pub own: NodeCidrs,
    /// Former CIDRs that another node has now, with its name.
    pub taken: Vec<(IpNet, String)>,
    /// The error, if the node has no pod CIDR of its own.
    pub status: Result<(), String>,
}

/// The status after the CIDRs in `decided` could not be adopted. It is the error `why` if the node still uses other
/// CIDRs (`now`). New pods then get no addresses, because peers have no route to them.
pub(super) fn without_change(
    decided: &[IpNet],
    now: &[IpNet],
    status: Result<(), String>,
    why: &str,
) -> Result<(), String> {
    status.and_then(|()| if decided == now { Ok(()) } else { Err(why.to_owned()) })
}

/// Chooses the pod CIDRs of this node: those that its Node names, unless they cannot be used. `requested` are those of
/// `--pod-cidr`, `now` those in use.
pub(super) fn decide(node: &str, requested: &[IpNet], now: &NodeCidrs, members: &Members) -> Decision {
    let assigned: Vec<IpNet> = members.own.iter().map(IpNet::trunc).collect();
    let (current, status) = match rejection(node, requested, &assigned, members) {
        Some(why) => (now.current.clone(), Err(why)),
        None => (assigned, Ok(())),
    };
    let (mut former, mut taken) = (Vec::new(), Vec::new());
    for range in now.current.iter().chain(&now.former).filter(|range| !current.contains(range)) {
        match members.others.iter().find(|other| other.ranges.iter().any(|theirs| meet(theirs, range))) {
            Some(other) => taken.push((*range, other.name.clone())),
            None => former.push(*range),
        }
    }
    Decision { own: NodeCidrs { current, former }, taken, status }
}

/// The reason why the assigned CIDRs cannot be used.
fn rejection(node: &str, requested: &[IpNet], assigned: &[IpNet], members: &Members) -> Option<String> {
    if assigned.is_empty() {
        return Some(format!(
            "the cluster has assigned no pod CIDR to node {node}: if the master has none left, delete Nodes that \
             no longer exist (kubectl delete node) or enlarge its --cluster-cidr; if it assigns none \
             (--allocate-node-cidrs=false), set spec.podCIDR of the Node; or let the engine provide the pod \
             network (--pod-network docker)"
        ));
    }
    if !requested.is_empty() && requested != assigned {
        let has_it =
            |other: &&Member| other.ranges.iter().any(|theirs| requested.iter().any(|own| meet(theirs, own)));
        let other = members.others.iter().find(has_it);
        let whose = other.map_or(String::new(), |other| {
            format!(" (node {} has {})", other.name, list(&other.ranges, ","))
        });
        let (requested, assigned) = (list(requested, ","), list(assigned, ","));
        return Some(format!(
            "--pod-cidr of node {node} is {requested}{whose}, but the cluster has assigned {assigned}: start the \
             kubelet without --pod-cidr, or with {assigned}. To use {requested}, which must be within the master's \
             --cluster-cidr and not belong to another node, delete node {node} from the cluster and let it join \
             again"
        ));
    }
    let v4 = assigned.iter().filter(|range| range.addr().is_ipv4()).count();
    let is_small = |range: &&IpNet| range.max_prefix_len() - range.prefix_len() < 2;
    if v4 > 1 || assigned.len() - v4 > 1 || assigned.iter().any(|range| is_small(&range)) {
        return Some(format!(
            "the cluster has assigned {} to node {node}, which needs one pod CIDR per IP family with room for \
             pods: assign another",
            list(assigned, ",")
        ));
    }
    let address_in = |range: &IpNet| {
        let within = |other: &Member| other.addresses.iter().copied().find(|ip| range.contains(ip));
        members.others.iter().find_map(|other| Some((*range, within(other)?, other.name.clone())))
    };
    if let Some((range, ip, name)) = assigned.iter().find_map(address_in) {
        return Some(format!(
            "the pod CIDR {range} of node {node} contains {ip}, the address of node {name}, which would become \
             unreachable: start the master with a --cluster-cidr that contains no machine"
        ));
    }
    let (older, range) = members.others.iter().find_map(|other| claimed_by_older(other, assigned))?;
    Some(format!(
        "node {} and this node {node} both have the pod CIDR {range}, and {} is older: delete node {node} from the \
         cluster and let it join again, so that it gets another pod CIDR",
        older.name, older.name
    ))
}

/// The assigned CIDR that an older node also has.
fn claimed_by_older<'a>(other: &'a Member, assigned: &[IpNet]) -> Option<(&'a Member, IpNet)> {
    let theirs = || other.ranges.iter();
    let claimed_by_older = assigned.iter().find(|range| theirs().any(|theirs| meet(theirs, range)))?;
    other.is_older.then_some((other, *claimed_by_older))
}

#[cfg(test)]
mod tests;
