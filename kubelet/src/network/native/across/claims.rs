//! Which node has what, where several claim the same: the older one. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::plan::{Scene, Way};
use crate::network::members::{Member, meet};
use crate::network::native::range::list;

/// What a node has of all it claims.
pub(super) struct Granted<'a> {
    /// The node.
    pub member: &'a Member,
    /// Where it is reached, one address a family.
    pub addresses: Vec<IpAddr>,
    /// The ranges of its pods.
    pub ranges: Vec<IpNet>,
}

/// Claims that are settled.
pub(super) struct Claims<'a> {
    scene: &'a Scene<'a>,
    /// Addresses of machines, and whose they are in words.
    hosts: BTreeMap<IpAddr, String>,
    /// Ranges that are given, none within another, by their first addresses.
    given: BTreeMap<IpAddr, (IpNet, &'a str)>,
    troubles: BTreeSet<String>,
}

impl<'a> Claims<'a> {
    /// Settles them; beside it, what somebody should know.
    pub fn settle(scene: &'a Scene<'a>) -> (Vec<Granted<'a>>, BTreeSet<String>) {
        let mut claims =
            Self { scene, hosts: machines(scene), given: BTreeMap::new(), troubles: BTreeSet::new() };
        let mut addresses = BTreeMap::new();
        let mut granted = Vec::new();
        for member in scene.others {
            let addresses = claims.addresses(member, &mut addresses);
            let ranges = claims.ranges(member);
            granted.push(Granted { member, addresses, ranges });
        }
        (granted, claims.troubles)
    }

    fn addresses(
        &mut self,
        member: &'a Member,
        taken: &mut BTreeMap<IpAddr, Vec<&'a Member>>,
    ) -> Vec<IpAddr> {
        // A node without pods of its own needs no way to it.
        if member.ranges.is_empty() {
            return Vec::new();
        }
        let Member { name, .. } = member;
        let (mut kept, mut strange, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        for address in counted(member) {
            if self.scene.ways.get(&address) == Some(&Way::Here) {
                // Several nodes of one machine have one address, whatever their ports are.
                if self.scene.here.contains(name) { &mut kept } else { &mut strange }.push(address);
                continue;
            }
            let at_it = taken.entry(address).or_default();
            match at_it.iter().find(|older| older.collides(member.port)) {
                Some(older) => lost.push((address, older.name.as_str())),
                None => {
                    at_it.push(member);
                    kept.push(address);
                }
            }
        }
        // It may have another one.
        let so = if kept.is_empty() { format!("pods of {name} are not reached; ") } else { String::new() };
        if let Some((_, older)) = lost.first() {
            let addresses: Vec<IpAddr> = lost.iter().map(|(address, _)| *address).collect();
            let addresses = list(&addresses, " and ");
            self.troubles.insert(format!(
                "nodes {older} and {name} both say that they are at {addresses}: {older} is older and counts as the one that is \
                 there; {so}give {name} its own address by --node-ip"
            ));
        }
        if !strange.is_empty() {
            let (node, addresses) = (self.scene.node, list(&strange, " and "));
            self.troubles.insert(format!(
                "node {name} says that it is at {addresses}, of this machine and node {node}, and is not here: {so}give one of \
                 them its own address by --node-ip, or delete node {name} from the cluster if it is gone for good"
            ));
        }
        kept
    }

    fn ranges(&mut self, member: &'a Member) -> Vec<IpNet> {
        let mut kept: Vec<IpNet> = Vec::new();
        for range in member.ranges.iter().map(IpNet::trunc) {
            // The same twice.
            if kept.iter().any(|other| meet(other, &range)) {
                continue;
            }
            match self.refusal(member, range) {
                Some(why) => {
                    self.troubles.insert(why);
                    // The other end of a tunnel is known by its first range.
                    if kept.is_empty() {
                        return kept;
                    }
                }
                None => {
                    self.given.insert(range.network(), (range, &member.name));
                    kept.push(range);
                }
            }
        }
        kept
    }

    /// Why a node does not have a range that it claims.
    fn refusal(&self, member: &Member, range: IpNet) -> Option<String> {
        let Member { name, is_older, .. } = member;
        let node = self.scene.node;
        if let Some(why) = api::pod_ranges::unfit(&range) {
            return Some(format!(
                "the range {range} of node {name} {why}: its pods are not reached; have the cluster give it another"
            ));
        }
        if let Some(own) = self.scene.current.iter().find(|own| meet(own, &range)) {
            let (older, younger) = if *is_older { (name.as_str(), node) } else { (node, name.as_str()) };
            return Some(format!(
                "nodes {older} and {younger} both have {} for their pods: pods of {name} are not reached from {node}; {older} \
                 is older and keeps it: delete node {younger} from the cluster and let it join again, for a range of its own",
                shared(own, &range)
            ));
        }
        if let Some((other, older)) = self.met(&range) {
            return Some(format!(
                "nodes {older} and {name} both have {} for their pods: {older} is older and keeps it, pods of {name} are not \
                 reached; delete node {name} from the cluster and let it join again, for a range of its own",
                shared(&other, &range)
            ));
        }
        let (address, whose) = self.hosts.range(range.network()..=range.broadcast()).next()?;
        Some(format!(
            "node {name} has {range} for its pods, and {address}, {whose}, lies within: its pods are not reached, because \
             {address} would not be any more; have the cluster give {name} another range"
        ))
    }

    /// The range that is given and has addresses in common with this one.
    fn met(&self, range: &IpNet) -> Option<(IpNet, &'a str)> {
        let before = self.given.range(..=range.network()).next_back();
        let behind = self.given.range(range.network()..).next();
        before.into_iter().chain(behind).map(|(_, found)| *found).find(|(other, _)| meet(other, range))
    }
}

/// Of each family the first address counts.
pub(super) fn counted(member: &Member) -> impl Iterator<Item = IpAddr> {
    let first = |is_v4| member.addresses.iter().copied().find(move |address| address.is_ipv4() == is_v4);
    first(true).into_iter().chain(first(false))
}

/// Addresses that no range of pods may hold: nobody would be reached any more.
fn machines(scene: &Scene<'_>) -> BTreeMap<IpAddr, String> {
    let mut all = BTreeMap::new();
    all.extend(scene.servers.iter().map(|server| (*server, "the address of the API server".to_owned())));
    for way in scene.ways.values() {
        if let Way::Segment(course) | Way::Router(course) = way {
            all.extend(course.gateway.map(|gateway| (gateway, "the router to other nodes".to_owned())));
            all.extend(course.from.map(|from| (from, format!("the address of node {}", scene.node))));
        }
    }
    for member in scene.others {
        let of_node = format!("the address of node {}", member.name);
        all.extend(counted(member).map(|address| (address, of_node.clone())));
    }
    all
}

/// What two ranges have in common: the smaller.
fn shared(one: &IpNet, other: &IpNet) -> IpNet {
    if one.contains(other) { *other } else { *one }
}
