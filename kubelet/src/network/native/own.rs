//! Which ranges are this node's own, as its cluster sees it. Pure.

use std::net::IpAddr;

use ipnet::IpNet;

use super::range::list;
use crate::network::members::{Member, Members, meet};

/// The ranges of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// Those that new pods get addresses of, the primary one first.
    pub current: Vec<IpNet>,
    /// Those that pods of before may have addresses of.
    pub former: Vec<IpNet>,
}

impl Own {
    /// All whose pods are reached here.
    pub fn all(&self) -> Vec<IpNet> {
        [&self.current[..], &self.former].concat()
    }

    /// Whether all these addresses are reached here.
    pub fn has(&self, addresses: &[IpAddr]) -> bool {
        addresses.iter().all(|ip| self.current.iter().chain(&self.former).any(|range| range.contains(ip)))
    }
}

/// What the cluster says, as far as it goes for this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// The ranges after it.
    pub own: Own,
    /// Ranges of before that another node has now, with its name.
    pub taken: Vec<(IpNet, String)>,
    /// Why the node has no range of its own, if so.
    pub standing: Result<(), String>,
}

/// How the node stands where ranges that were `decided` on could not be taken, for that reason, and it has those of `now`: new pods get
/// no addresses of a range that no other node knows to be this one's.
pub(super) fn without(
    decided: &[IpNet],
    now: &[IpNet],
    standing: Result<(), String>,
    why: &str,
) -> Result<(), String> {
    standing.and_then(|()| if decided == now { Ok(()) } else { Err(why.to_owned()) })
}

/// What becomes of the ranges. `given` are those of `--pod-cidr`.
pub(super) fn decide(node: &str, given: &[IpNet], now: &Own, members: &Members) -> Decision {
    let said: Vec<IpNet> = members.own.iter().map(IpNet::trunc).collect();
    let (current, standing) = match refusal(node, given, &said, members) {
        Some(why) => (now.current.clone(), Err(why)),
        None => (said, Ok(())),
    };
    let (mut former, mut taken) = (Vec::new(), Vec::new());
    for range in now.current.iter().chain(&now.former).filter(|range| !current.contains(range)) {
        match members.others.iter().find(|other| other.ranges.iter().any(|theirs| meet(theirs, range))) {
            Some(other) => taken.push((*range, other.name.clone())),
            None => former.push(*range),
        }
    }
    Decision { own: Own { current, former }, taken, standing }
}

/// Why what the cluster says cannot be this node's.
fn refusal(node: &str, given: &[IpNet], said: &[IpNet], members: &Members) -> Option<String> {
    if said.is_empty() {
        return Some(format!(
            "the cluster has no range of addresses for pods of node {node}: where its master has none left, delete Nodes that are \
             gone for good (kubectl delete node) or give it a larger --cluster-cidr; where it gives none \
             (--allocate-node-cidrs=false), write one into spec.podCIDR of the node; or have the engine give pods their network \
             (--pod-network docker)"
        ));
    }
    if !given.is_empty() && given != said {
        let has_it =
            |other: &&Member| other.ranges.iter().any(|theirs| given.iter().any(|own| meet(theirs, own)));
        let other = members.others.iter().find(has_it);
        let whose = other.map_or(String::new(), |other| {
            format!(" (node {} has {})", other.name, list(&other.ranges, ","))
        });
        let (given, said) = (list(given, ","), list(said, ","));
        return Some(format!(
            "--pod-cidr of node {node} is {given}{whose}, and the cluster has {said} for it: start the kubelet without --pod-cidr, or with \
             {said}. To have {given}, which must lie in the cluster's own range (--cluster-cidr) and be no other node's, delete node \
             {node} from the cluster and let it join again"
        ));
    }
    let v4 = said.iter().filter(|range| range.addr().is_ipv4()).count();
    let is_small = |range: &&IpNet| range.max_prefix_len() - range.prefix_len() < 2;
    if v4 > 1 || said.len() - v4 > 1 || said.iter().any(|range| is_small(&range)) {
        return Some(format!(
            "the cluster has {} for pods of node {node}, which takes one range of a family with room for pods: give it another",
            list(said, ",")
        ));
    }
    let address_in = |range: &IpNet| {
        let within = |other: &Member| other.addresses.iter().copied().find(|ip| range.contains(ip));
        members.others.iter().find_map(|other| Some((*range, within(other)?, other.name.clone())))
    };
    if let Some((range, ip, name)) = said.iter().find_map(address_in) {
        return Some(format!(
            "the cluster has {range} for pods of node {node}, and {ip}, the address of node {name}, lies within, which would not be \
             reached any more: have the master give ranges that no machine is in (--cluster-cidr)"
        ));
    }
    let (older, range) = members.others.iter().find_map(|other| claimed(other, said))?;
    Some(format!(
        "node {} and this node {node} both have {range} for their pods, and {} is older: delete node {node} from the cluster and \
         let it join again, for a range of its own",
        older.name, older.name
    ))
}

/// Of which of these ranges an older node has something.
fn claimed<'a>(other: &'a Member, said: &[IpNet]) -> Option<(&'a Member, IpNet)> {
    let theirs = || other.ranges.iter();
    let claimed = said.iter().find(|range| theirs().any(|theirs| meet(theirs, range)))?;
    other.is_older.then_some((other, *claimed))
}

#[cfg(test)]
mod tests;
