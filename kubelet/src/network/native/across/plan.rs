//! What this node needs to reach the pods of others, from what the cluster says and what the kernel says of the ways. Pure.
//!
//! On one segment a route is enough. Where a router lies between, which knows nothing of pods, packets go through a tunnel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use sha2::{Digest as _, Sha256};

use super::claims::{Claims, Granted};
use crate::network::members::Member;
use crate::network::nft::Family;

/// A hardware address.
pub(super) type Mac = [u8; 6];

/// The way to an address, as the kernel would go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It is one of this machine.
    Here,
    /// It is on the other side of a link.
    Segment(Course),
    /// A router lies between, or a link on which addresses of pods mean nothing.
    Router(Course),
    /// There is none, and this is why.
    None(String),
}

/// How packets leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Course {
    /// The number of the link.
    pub link: u32,
    /// Bytes of its largest packet.
    pub mtu: u32,
    /// The address of this machine that packets have.
    pub from: Option<IpAddr>,
    /// The router.
    pub gateway: Option<IpAddr>,
}

/// One moment, as a plan goes by it.
pub(super) struct Scene<'a> {
    /// This node.
    pub node: &'a str,
    /// The ranges that it gives addresses of, the primary one first.
    pub current: &'a [IpNet],
    /// The other nodes, the oldest first.
    pub others: &'a [Member],
    /// The ways to their addresses.
    pub ways: &'a BTreeMap<IpAddr, Way>,
    /// Where the API servers are.
    pub servers: &'a [IpAddr],
    /// Those that are on this machine.
    pub here: &'a BTreeSet<String>,
}

/// What there is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The way to each range.
    pub routes: BTreeMap<IpNet, Hop>,
    /// Whose each range is.
    pub whose: BTreeMap<IpNet, String>,
    /// The tunnels that are needed, by the family of the addresses they go between.
    pub tunnels: BTreeMap<Family, Tunnel>,
    /// The ranges of the others: pods are seen there as who they are.
    pub cluster: Vec<IpNet>,
    /// What somebody should know, a sentence each.
    pub troubles: BTreeSet<String>,
}

/// The next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    /// The node itself, on that link.
    Direct {
        /// Its address.
        via: IpAddr,
        /// The number of the link.
        link: u32,
    },
    /// The other end of a tunnel.
    Tunnel {
        /// Which tunnel.
        under: Family,
        /// The address of that end inside.
        via: IpAddr,
    },
}

/// A tunnel's own end, and the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tunnel {
    /// The hardware address of its own end.
    pub mac: Mac,
    /// Bytes of its largest packet.
    pub mtu: u32,
    /// Its own addresses: what the node itself sends comes back the same way.
    pub addresses: Vec<IpAddr>,
    /// The other ends by their addresses inside.
    pub neighbours: BTreeMap<IpAddr, Mac>,
    /// Where the other ends are.
    pub forwarding: BTreeMap<Mac, IpAddr>,
}

/// What a packet grows by: an Ethernet header, those of VXLAN and UDP, and the outer one of IP.
fn overhead(under: Family) -> u32 {
    match under {
        Family::V4 => 14 + 8 + 8 + 20,
        Family::V6 => 14 + 8 + 8 + 40,
    }
}

/// Where no link says how large its packets may be.
const MTU: u32 = 1500;

/// The hardware address of a node's end: of its first range, so that each node knows those of all others.
pub(super) fn mac(first: &IpNet) -> Mac {
    let digest = Sha256::digest(first.trunc().to_string());
    // Locally administered, one station.
    [0x02, digest[0], digest[1], digest[2], digest[3], digest[4]]
}

/// What there is to be at this moment.
pub(super) fn plan(scene: &Scene<'_>) -> Plan {
    let mut plan = Plan::default();
    let (granted, troubles) = Claims::settle(scene);
    plan.troubles = troubles;
    for Granted { member, addresses, ranges } in granted {
        plan.cluster.extend(&ranges);
        if ranges.is_empty() || scene.here.contains(&member.name) {
            continue;
        }
        for range in ranges {
            plan.whose.insert(range, member.name.clone());
            if let Err(why) = plan.lay(scene, member, &addresses, range) {
                plan.troubles.insert(why);
            }
        }
    }
    plan
}

impl Plan {
    fn lay(
        &mut self,
        scene: &Scene<'_>,
        member: &Member,
        addresses: &[IpAddr],
        range: IpNet,
    ) -> Result<(), String> {
        let is_kin = |address: &IpAddr| address.is_ipv4() == range.addr().is_ipv4();
        // Of the range's own family first: that may do without a tunnel.
        let kin = addresses.iter().filter(|address| is_kin(address));
        let others = addresses.iter().filter(|address| !is_kin(address));
        let mut why = Vec::new();
        for address in kin.chain(others) {
            match scene.ways.get(address) {
                Some(Way::Segment(course)) if is_kin(address) => {
                    let hop = Hop::Direct { via: *address, link: course.link };
                    self.routes.insert(range, hop);
                    return Ok(());
                }
                Some(Way::Segment(course) | Way::Router(course)) => {
                    self.tunnel(scene, member, *address, course, range);
                    return Ok(());
                }
                Some(Way::None(reason)) => why.push(format!("{address}: {reason}")),
                Some(Way::Here) | None => {}
            }
        }
        let Member { name, .. } = member;
        match why.is_empty() {
            // What keeps its addresses from being used is told already.
            true if !member.addresses.is_empty() => Ok(()),
            true => Err(format!(
                "pods of node {name} are not reached, because the cluster knows no address of it: see its --node-ip"
            )),
            false => Err(format!(
                "pods of node {name} are not reached, because this machine has no way there ({}): give it a route, or \
                 node {name} an address that is reached from here by --node-ip",
                why.join("; ")
            )),
        }
    }

    fn tunnel(&mut self, scene: &Scene<'_>, member: &Member, address: IpAddr, course: &Course, range: IpNet) {
        let (Some(own), Some(first)) = (scene.current.first(), member.ranges.first()) else { return };
        let under = Family::of(address);
        let outside = if course.mtu == 0 { MTU } else { course.mtu };
        let mtu = outside.saturating_sub(overhead(under));
        let tunnel = self.tunnels.entry(under).or_insert_with(|| Tunnel {
            mac: mac(own),
            mtu,
            addresses: scene.current.iter().map(IpNet::network).collect(),
            ..Tunnel::default()
        });
        tunnel.mtu = tunnel.mtu.min(mtu);
        let (via, theirs) = (range.network(), mac(first));
        tunnel.neighbours.insert(via, theirs);
        tunnel.forwarding.insert(theirs, address);
        self.routes.insert(range, Hop::Tunnel { under, via });
    }
}

#[cfg(test)]
mod tests;
