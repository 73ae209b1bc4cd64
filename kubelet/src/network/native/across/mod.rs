//! The way to pods of other nodes: a route a range, and a tunnel where a router lies between.
//!
//! [`plan`] and [`claims`] decide, [`look`] asks the kernel for the ways, [`tunnel`] and [`lay`] do what follows. Only what
//! bears this node's mark is ever touched: routes of our protocol number and the node's metric, links of the node's name.

mod claims;
mod lay;
mod look;
mod plan;
mod tunnel;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use sha2::{Digest as _, Sha256};

use self::plan::{Plan, Scene, Way};
use self::tunnel::End;
pub(super) use self::words::{OURS, our_routes};
use super::bridge::Bridge;
use super::netlink::Netlink;
use crate::network::members::Member;
use crate::network::nft::Family;

/// Metrics of our routes begin here: others, which have lower ones, go before ours.
const METRICS: u32 = 1 << 24;

/// The way from one node to the pods of others, in the network namespace of the thread that asks for it.
pub struct Across {
    node: String,
    /// Those of the links, by what they go over.
    names: BTreeMap<Family, String>,
    /// That of the node's routes.
    metric: u32,
    /// Where API servers are.
    servers: Vec<IpAddr>,
    last: Plan,
    /// Links by which other nodes are reached.
    watched: BTreeSet<u32>,
    /// Those of the tunnels.
    tunnels: BTreeSet<u32>,
}

/// What came of a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The ranges of other nodes that are theirs; `None` when that could not be seen.
    pub cluster: Option<Vec<IpNet>>,
    /// What had gone and is there again, a sentence each.
    pub mended: Vec<String>,
    /// What somebody should know, a sentence each.
    pub troubles: BTreeSet<String>,
    /// What could not be done and is to be tried again.
    pub failed: Option<String>,
}

impl Across {
    /// Of a node. Changes nothing yet.
    pub fn new(node: &str) -> Self {
        let digest = Sha256::digest(node);
        let [a, b, c] = [digest[0], digest[1], digest[2]];
        let name = |version: u8| format!("coracle{version}-{}", hex::encode([a, b, c]));
        Self {
            node: node.to_owned(),
            names: [(Family::V4, name(4)), (Family::V6, name(6))].into(),
            metric: METRICS + u32::from_be_bytes([0, a, b, c]),
            servers: Vec::new(),
            last: Plan::default(),
            watched: BTreeSet::new(),
            tunnels: BTreeSet::new(),
        }
    }

    /// From now on no range is laid a way to that holds one of these addresses: API servers are there.
    pub fn keep_clear_of(&mut self, servers: Vec<IpAddr>) {
        self.servers = servers;
    }

    /// Sees to it that pods of the other nodes are reached, the oldest of them first, from a node with these ranges. What is as it
    /// should be is not touched. `first` hears of the ranges of other nodes before any way to them is laid. Blocks for some ten
    /// microseconds a node.
    pub fn settle(&mut self, current: &[IpNet], others: &[Member], first: impl FnOnce(&[IpNet])) -> Told {
        let mut told = Told::default();
        if let Err(error) = self.try_settle(current, others, first, &mut told) {
            told.failed = Some(error.to_string());
        }
        told
    }

    /// Takes away all that there is.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove(&mut self) -> io::Result<()> {
        match self.settle(&[], &[], |_| {}).failed {
            Some(why) => Err(io::Error::other(why)),
            None => Ok(()),
        }
    }

    /// Whether it is of that name, or leads over a link of that number.
    pub(super) fn is_concerned(&self, index: u32, name: &str) -> bool {
        self.watched.contains(&index) || self.is_own(name)
    }

    /// Whether a link of that number is one of its own.
    pub(super) fn is_tunnel(&self, index: u32) -> bool {
        self.tunnels.contains(&index)
    }

    /// Whether a link of that name is one of its own.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.names.values().any(|own| own == name)
    }

    /// Whether a link of that name is the node's bridge or one of these.
    pub(super) fn is_of_node(&self, name: &str) -> bool {
        self.is_own(name) || name == Bridge::name_of(&self.node)
    }

    /// Whether a route is one of its own.
    pub(super) fn is_laid(&self, route: &netlink_packet_route::route::RouteMessage) -> bool {
        words::read_route(route, self.metric).is_some()
    }

    fn try_settle(
        &mut self,
        current: &[IpNet],
        others: &[Member],
        first: impl FnOnce(&[IpNet]),
        told: &mut Told,
    ) -> io::Result<()> {
        let mut netlink = Netlink::open()?;
        let sight = look::sight(&mut netlink, others)?;
        let (ways, here) = (&sight.ways, &sight.here);
        let plan =
            plan::plan(&Scene { node: &self.node, current, others, ways, servers: &self.servers, here });
        first(&plan.cluster);
        told.cluster = Some(plan.cluster.clone());
        told.troubles.clone_from(&plan.troubles);
        let before = std::mem::replace(&mut self.last, plan);
        self.watched = ways.values().filter_map(leads_over).collect();
        self.apply(&mut netlink, &before, told)
    }

    /// New before old: tunnels, then routes, then what is not wanted any more. What cannot be done keeps nothing else from it.
    fn apply(&mut self, netlink: &mut Netlink, before: &Plan, told: &mut Told) -> io::Result<()> {
        let mut last = Ok(());
        let plan = &self.last;
        let mut tunnels = BTreeMap::new();
        for (under, tunnel) in &plan.tunnels {
            match self.end(*under).ensure(netlink, tunnel) {
                Ok((index, is_new)) => {
                    tunnels.insert(*under, index);
                    if is_new && before.tunnels.contains_key(under) {
                        let name = &self.names[under];
                        told.mended
                            .push(format!("the tunnel {name} to other nodes was gone: it is there again"));
                    }
                }
                Err(error) => last = Err(error),
            }
        }
        self.tunnels = tunnels.values().copied().collect();
        let there = lay::there(self.metric)?;
        let wanted = lay::wanted(plan, &tunnels);
        for (range, laid) in &wanted {
            if there.get(range) != Some(laid) {
                if let Err(error) = lay::lay(netlink, *range, laid, self.metric) {
                    last = Err(error);
                    continue;
                }
                let whose = plan.whose.get(range).map_or("", String::as_str);
                if before.routes.get(range) == plan.routes.get(range) && !there.contains_key(range) {
                    told.mended.push(format!(
                        "the route to {range}, pods of node {whose}, was gone: it is there again"
                    ));
                }
            }
            if !lay::is_gone_by(netlink, *range, laid)? {
                let whose = plan.whose.get(range).map_or("", String::as_str);
                told.troubles.insert(format!(
                    "this machine reaches {range}, pods of node {whose}, another way than the one laid for them via {}: take away \
                     the route that stands before it, `ip route` and `ip rule` show them",
                    laid.via
                ));
            }
        }
        for (range, laid) in there.iter().filter(|(range, _)| !plan.routes.contains_key(*range)) {
            last = lay::take(netlink, *range, laid, self.metric).and(last);
        }
        for (under, name) in &self.names {
            let tidied = match (plan.tunnels.get(under), tunnels.get(under)) {
                (Some(tunnel), Some(index)) => self.end(*under).forget(netlink, tunnel, *index),
                (Some(_), None) => Ok(()),
                (None, _) => netlink.cut(name),
            };
            last = tidied.and(last);
        }
        last
    }

    fn end(&self, under: Family) -> End<'_> {
        End { name: &self.names[&under], node: &self.node, under }
    }
}

fn leads_over(way: &Way) -> Option<u32> {
    match way {
        Way::Segment(course) | Way::Router(course) => Some(course.link),
        Way::Here | Way::None(_) => None,
    }
}
