//! Whether a node may have a pod: one file a reason why not, asked in the order of the stock scheduler.

mod beside;
mod node_affinity;
mod node_name;
mod pod_affinity;
mod ports;
mod resources;
mod spread;
mod taints;
#[cfg(test)]
mod tests;
mod unschedulable;
mod volumes;
mod why;

pub use self::beside::{crowded, refuses_beside};
pub use self::node_affinity::lets_through;
pub use self::spread::{Stand, counts_for};
pub use self::why::{Kind, Why};
use super::cluster::Cluster;
use super::node::{Node, NodeId, Slot};
use super::pod::Pod;
use pod_affinity::Neighbours;
use spread::Skews;
use volumes::Claims;

/// What is found out once for a pod, before nodes are looked at.
#[derive(Debug)]
pub struct Prepared<'a> {
    pod: &'a Pod,
    claims: Claims<'a>,
    neighbours: Neighbours<'a>,
    skews: Skews<'a>,
    /// Resources that somebody else counts.
    unheeded: &'a [String],
}

impl<'a> Prepared<'a> {
    /// Looks at the cluster for that pod, whose terms are counted there.
    pub fn of(cluster: &'a Cluster, pod: &'a Pod) -> Self {
        Self::with(cluster, pod, Skews::of(cluster, pod))
    }

    /// The same for one node alone, whose pods are other ones than when the others were counted: that goes over no others.
    fn on(cluster: &'a Cluster, pod: &'a Pod, id: NodeId, stand: &Stand) -> Self {
        Self::with(cluster, pod, Skews::on(cluster, pod, id, stand))
    }

    fn with(cluster: &'a Cluster, pod: &'a Pod, skews: Skews<'a>) -> Self {
        Self {
            pod,
            claims: Claims::of(cluster, pod),
            neighbours: Neighbours::of(cluster, pod),
            skews,
            unheeded: cluster.unheeded(),
        }
    }

    /// Why the node may not have the pod: all that the first file with an objection says.
    pub fn refuses(&self, slot: &Slot, node: &Node) -> Option<Vec<Why>> {
        let pod = self.pod;
        let one = |why: Option<Why>| why.map(|why| vec![why]);
        one(unschedulable::refuses(pod, node))
            .or_else(|| one(node_name::refuses(pod, node)))
            .or_else(|| one(taints::refuses(pod, node)))
            .or_else(|| one(node_affinity::refuses(pod, node)))
            .or_else(|| one(ports::refuses(pod, slot)))
            .or_else(|| resources::refuses(pod, slot, node, self.unheeded))
            .or_else(|| self.claims.refuses(node))
            .or_else(|| one(self.skews.refuses(node)))
            .or_else(|| one(self.neighbours.refuses(node)))
    }

    /// The same for a node by its place; one that is gone is not refused.
    pub fn refuses_at(&self, cluster: &Cluster, id: NodeId) -> Option<Vec<Why>> {
        let (slot, node) = cluster.node(id)?;
        self.refuses(slot, node)
    }
}
