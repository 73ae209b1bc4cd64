//! Routes to the pods of peer nodes: one route per pod CIDR, through a VXLAN if a router is between the nodes.
//!
//! [`plan`] and [`conflicts`] decide, [`lookup`] queries the kernel how peers are reached, [`vxlan`] and [`routes`]
//! apply the plan. The kubelet changes only its own routes, identified by protocol number and metric, and its own
//! links, identified by name.

mod conflicts;
mod lookup;
mod messages;
mod plan;
mod routes;
mod vxlan;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use ipnet::IpNet;
use sha2::{Digest as _, Sha256};

pub(super) use self::messages::{ROUTE_PROTOCOL, our_routes};
use self::plan::{Plan, PlanInput, Reachability};
use self::vxlan::VxlanDevice;
use super::bridge::Bridge;
use super::netlink::Netlink;
use crate::network::Member;
use crate::network::nft::Family;

/// Base of the metrics that kubelets use. It is high, so that other routes take precedence.
const FIRST_METRIC: u32 = 1 << 24;

/// The routes of one node to its peers, in the network namespace of the calling thread.
pub struct PeerRoutes {
    node: String,
    /// Names of the VXLAN devices by underlay family.
    vxlan_names: BTreeMap<Family, String>,
    /// The metric of the node's routes.
    metric: u32,
    /// The addresses of the API servers.
    servers: Vec<IpAddr>,
    last: Plan,
    /// Links through which peers are reached.
    egress_links: BTreeSet<u32>,
    /// Indexes of the VXLAN devices.
    vxlan_links: BTreeSet<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncResult {
    /// The pod CIDRs of the peers, or `None` if they could not be determined.
    pub cluster: Option<Vec<IpNet>>,
    /// What was missing and has been restored, one sentence each.
    pub repaired: Vec<String>,
    /// Warnings, one sentence each.
    pub warnings: BTreeSet<String>,
    /// The error of a failed change. The caller retries.
    pub failed: Option<String>,
}

impl PeerRoutes {
    /// Describes the routes of a node. It changes nothing yet.
    pub fn new(node: &str) -> Self {
        let digest = Sha256::digest(node);
        let [a, b, c] = [digest[0], digest[1], digest[2]];
        let name = |version: u8| format!("coracle{version}-{}", hex::encode([a, b, c]));
        Self {
            node: node.to_owned(),
            vxlan_names: [(Family::V4, name(4)), (Family::V6, name(6))].into(),
            metric: FIRST_METRIC + u32::from_be_bytes([0, a, b, c]),
            servers: Vec::new(),
            last: Plan::default(),
            egress_links: BTreeSet::new(),
            vxlan_links: BTreeSet::new(),
        }
    }

    /// Sets the addresses of the API servers, which no route may cover.
    pub fn set_api_servers(&mut self, servers: Vec<IpAddr>) {
        self.servers = servers;
    }

    /// Syncs the routes to the peers, which are sorted by age, from a node with the CIDRs `current`. `first` gets
    /// the pod CIDRs of the peers before any route to them exists. Blocks for some ten microseconds per node.
    pub fn sync(&mut self, current: &[IpNet], others: &[Member], first: impl FnOnce(&[IpNet])) -> SyncResult {
        let mut result = SyncResult::default();
        if let Err(error) = self.try_sync(current, others, first, &mut result) {
            result.failed = Some(error.to_string());
        }
        result
    }

    /// Removes all routes and VXLAN devices.
    ///
    /// # Errors
    /// If the kernel rejects a change.
    pub fn remove(&mut self) -> io::Result<()> {
        match self.sync(&[], &[], |_| {}).failed {
            Some(why) => Err(io::Error::other(why)),
            None => Ok(()),
        }
    }

    /// Whether a link is one of the VXLAN devices or leads to a peer.
    pub(super) fn is_relevant_link(&self, index: u32, name: &str) -> bool {
        self.egress_links.contains(&index) || self.is_vxlan_name(name)
    }

    /// Whether the link with this index is one of the VXLAN devices.
    pub(super) fn is_vxlan_link(&self, index: u32) -> bool {
        self.vxlan_links.contains(&index)
    }

    /// Whether this name is that of one of the VXLAN devices.
    pub(super) fn is_vxlan_name(&self, name: &str) -> bool {
        self.vxlan_names.values().any(|own| own == name)
    }

    /// Whether this name is that of the node's bridge or of one of its VXLAN devices.
    pub(super) fn is_of_node(&self, name: &str) -> bool {
        self.is_vxlan_name(name) || name == Bridge::name_of(&self.node)
    }

    /// Whether the node created the route.
    pub(super) fn is_own_route(&self, route: &netlink_packet_route::route::RouteMessage) -> bool {
        messages::read_route(route, self.metric).is_some()
    }

    fn try_sync(
        &mut self,
        current: &[IpNet],
        others: &[Member],
        first: impl FnOnce(&[IpNet]),
        result: &mut SyncResult,
    ) -> io::Result<()> {
        let mut netlink = Netlink::open()?;
        let found = lookup::look_up(&mut netlink, others)?;
        let (reachability, local_nodes) = (&found.reachability, &found.local_nodes);
        let plan = plan::plan(&PlanInput {
            node: &self.node,
            current,
            others,
            reachability,
            servers: &self.servers,
            local_nodes,
        });
        first(&plan.cluster);
        result.cluster = Some(plan.cluster.clone());
        result.warnings.clone_from(&plan.warnings);
        let before = std::mem::replace(&mut self.last, plan);
        self.egress_links = reachability.values().filter_map(egress_link).collect();
        self.apply(&mut netlink, &before, result)
    }

    /// Applies the plan: VXLAN devices, then routes, then removals. An error does not stop the other steps; the last
    /// one is returned.
    fn apply(&mut self, netlink: &mut Netlink, before: &Plan, result: &mut SyncResult) -> io::Result<()> {
        let mut last = Ok(());
        let plan = &self.last;
        let mut vxlan_links = BTreeMap::new();
        for (underlay, tunnel) in &plan.tunnels {
            match self.vxlan_device(*underlay).ensure(netlink, tunnel) {
                Ok((index, is_new)) => {
                    vxlan_links.insert(*underlay, index);
                    if is_new && before.tunnels.contains_key(underlay) {
                        let name = &self.vxlan_names[underlay];
                        result.repaired.push(format!(
                            "the tunnel {name} to other nodes was missing and was created again"
                        ));
                    }
                }
                Err(error) => last = Err(error),
            }
        }
        self.vxlan_links = vxlan_links.values().copied().collect();
        let installed = routes::installed(self.metric)?;
        let wanted = routes::wanted(plan, &vxlan_links);
        for (range, route) in &wanted {
            if installed.get(range) != Some(route) {
                if let Err(error) = routes::add(netlink, *range, route, self.metric) {
                    last = Err(error);
                    continue;
                }
                let owner = plan.owners.get(range).map_or("", String::as_str);
                if before.routes.get(range) == plan.routes.get(range) && !installed.contains_key(range) {
                    result.repaired.push(format!(
                        "the route to {range}, the pods of node {owner}, was missing and was added again"
                    ));
                }
            }
            if !routes::is_effective(netlink, *range, route)? {
                let owner = plan.owners.get(range).map_or("", String::as_str);
                result.warnings.insert(format!(
                    "this machine does not use the kubelet's route to {range}, the pods of node {owner}, via {}: \
                     remove the route that takes precedence, see `ip route` and `ip rule`",
                    route.via
                ));
            }
        }
        for (range, route) in installed.iter().filter(|(range, _)| !plan.routes.contains_key(*range)) {
            last = routes::remove(netlink, *range, route, self.metric).and(last);
        }
        for (underlay, name) in &self.vxlan_names {
            let tidied = match (plan.tunnels.get(underlay), vxlan_links.get(underlay)) {
                (Some(tunnel), Some(index)) => self.vxlan_device(*underlay).prune(netlink, tunnel, *index),
                (Some(_), None) => Ok(()),
                (None, _) => netlink.delete_link(name),
            };
            last = tidied.and(last);
        }
        last
    }

    fn vxlan_device(&self, underlay: Family) -> VxlanDevice<'_> {
        VxlanDevice { name: &self.vxlan_names[&underlay], node: &self.node, underlay }
    }
}

fn egress_link(way: &Reachability) -> Option<u32> {
    match way {
        Reachability::SameSegment(path) | Reachability::Routed(path) => Some(path.link),
        Reachability::Local | Reachability::None(_) => None,
    }
}
