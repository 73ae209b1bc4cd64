//! Applies the cluster membership to the pod network: the node's own pod CIDRs, and the routes to peers.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};

use ipnet::IpNet;

use super::bridge::{OwnRoutes, overlap};
use super::netlink::Netlink;
use super::node_cidrs::{Decision, NodeCidrs, decide, without_change};
use super::{Native, Ranges, pod_cidr};
use crate::network::Members;

/// Result of applying the membership.
#[derive(Debug)]
pub(super) struct PeerUpdate {
    /// The error, if the node has no pod CIDR of its own.
    pub status: Result<(), String>,
    /// Changes to report.
    pub notices: Vec<String>,
    /// What was missing and has been restored.
    pub repaired: Vec<String>,
    /// Conditions that an administrator should fix, as they are now.
    pub warnings: BTreeSet<String>,
    /// The error of a failed change. The caller retries.
    pub failed: Option<String>,
}

impl Native {
    /// Adopts the node's pod CIDRs and syncs the routes to the peers.
    pub(super) fn apply_members(&self, members: &Members) -> PeerUpdate {
        let Decision { own, taken, status } =
            decide(&self.node, &self.requested, &self.ranges().own, members);
        let mut update = PeerUpdate {
            status,
            notices: Vec::new(),
            repaired: Vec::new(),
            warnings: BTreeSet::new(),
            failed: None,
        };
        let servers = (self.servers)();
        let decided = own.current.clone();
        match self.adopt_cidrs(own, &taken, &servers, &mut update.notices) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => update.status = Err(why),
            Err(error) => {
                let why = format!("cannot adopt the pod CIDRs of the cluster: {error}");
                update.status = without_change(&decided, &self.current(), update.status, &why);
                update.failed = Some(why);
            }
        }
        let current = self.current();
        self.peer_routes().set_api_servers(servers);
        let result =
            self.peer_routes().sync(&current, &members.others, |cluster| self.add_peer_cidrs(cluster));
        update.repaired.extend(result.repaired);
        update.warnings.extend(result.warnings);
        update.failed = update.failed.or(result.failed);
        if let Some(cluster) = result.cluster
            && let Err(error) = self.set_peer_cidrs(cluster)
        {
            update.failed = Some(format!("pods may be masqueraded towards other nodes: {error}"));
        }
        update
    }

    /// Removes the routes and rules of a cluster that the node has left.
    pub(super) fn leave_cluster(&self) -> io::Result<()> {
        self.peer_routes().remove()?;
        self.set_peer_cidrs(Vec::new())
    }

    /// Adopts the pod CIDRs. If a route or an API server conflicts with them, the inner result has the reason. The
    /// bridge gets an address of a CIDR before pods do. It loses its addresses in CIDRs that another node has.
    fn adopt_cidrs(
        &self,
        mut own: NodeCidrs,
        taken: &[(IpNet, String)],
        servers: &[IpAddr],
        notices: &mut Vec<String>,
    ) -> io::Result<Result<(), String>> {
        let before = self.ranges().own.clone();
        let addresses = self.state().addresses();
        let mut gone: Vec<IpNet> = taken.iter().map(|(range, _)| *range).collect();
        own.former.retain(|range| {
            let is_in_use = addresses.iter().any(|ip| range.contains(ip));
            gone.extend((!is_in_use).then_some(*range));
            is_in_use
        });
        if own == before {
            return Ok(Ok(()));
        }
        let mut netlink = Netlink::open()?;
        let new: Vec<IpNet> =
            own.current.iter().filter(|range| !before.all().contains(range)).copied().collect();
        // Waiting here would block all pods of the node; the caller retries instead.
        let _lock = pod_cidr::try_lock()?;
        if let Some(route) = overlap(&mut netlink, &new, &self.peer_routes(), OwnRoutes::Ignore)? {
            let (node, new) = (&self.node, pod_cidr::list(&new, " and "));
            return Ok(Err(format!(
                "the pod CIDR {new} of node {node} overlaps the route of this machine to {route}: remove the \
                 route, or assign another pod CIDR to the node"
            )));
        }
        if let Some(server) = pod_cidr::address_within(&new, servers) {
            let (node, new) = (&self.node, pod_cidr::list(&new, " and "));
            return Ok(Err(format!(
                "the pod CIDR {new} of node {node} contains the address {server} of the API server, which would \
                 become unreachable: start the master with a --cluster-cidr that contains no machine"
            )));
        }
        self.bridge.ensure(&mut netlink, &own.all())?;
        for range in &gone {
            self.bridge.remove_address(&mut netlink, range)?;
        }
        if self.requested.is_empty() {
            pod_cidr::save_selected(&self.directory, &own.current)?;
        }
        pod_cidr::save_all(&self.directory, &own.all())?;
        if own.current != before.current {
            notices.push(format!(
                "new pods get addresses of {}, which the cluster assigned",
                pod_cidr::list(&own.current, " and ")
            ));
        }
        for (range, node) in taken {
            let pods = addresses.iter().filter(|ip| range.contains(*ip)).count();
            if pods > 0 {
                notices.push(format!(
                    "node {node} now has {range}: {pods} pods with addresses in this range are recreated"
                ));
            }
        }
        self.set(|ranges| ranges.own = own);
        self.ensure_rules()?;
        // Its rules for DNS queries contain the addresses of the bridge.
        self.try_open_legacy_firewall();
        Ok(Ok(()))
    }

    /// Adds pod CIDRs of peers to the rules before routes to them exist, so that pods are not masqueraded towards
    /// them. Old CIDRs stay until their routes are removed.
    fn add_peer_cidrs(&self, cluster: &[IpNet]) {
        let mut all = self.ranges().others.clone();
        let new: Vec<IpNet> = cluster.iter().filter(|range| !all.contains(range)).copied().collect();
        all.extend(new);
        // The caller sets them again after the routes, and reports an error then.
        let _ = self.set_peer_cidrs(all);
    }

    /// Sets the pod CIDRs of the peers.
    fn set_peer_cidrs(&self, others: Vec<IpNet>) -> io::Result<()> {
        if self.ranges().others == others {
            return Ok(());
        }
        pod_cidr::save_cluster(&self.directory, &others)?;
        let before = self.ranges();
        self.set(|ranges| ranges.others = others);
        self.ensure_rules()
            .map(drop)
            .inspect_err(|_| self.set(|ranges| ranges.others.clone_from(&before.others)))
    }

    fn set(&self, change: impl FnOnce(&mut Ranges)) {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut ranges));
        let gateways = ranges.own.gateways();
        self.gateways.send_if_modified(|known| std::mem::replace(known, gateways.clone()) != gateways);
    }
}
