//! The nodes of a cluster, as the pod network needs them. `cluster` publishes these values, and the network creates
//! routes from them.

use std::net::IpAddr;

use ipnet::IpNet;

/// The cluster membership.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The pod CIDRs that the cluster assigned to this node, the primary one first; empty if there are none.
    pub own: Vec<IpNet>,
    /// The peer nodes, the oldest first. If two nodes claim the same address or CIDR, the older node gets it.
    pub others: Vec<Member>,
}

/// A peer node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The node's name.
    pub name: String,
    /// Whether the peer was created before this node.
    pub is_older: bool,
    /// The peer's internal addresses. Only the first one of each family is used.
    pub addresses: Vec<IpAddr>,
    /// The port of the peer's kubelet, or 0 if it is unknown.
    pub port: u16,
    /// The peer's pod CIDRs; empty if it has none.
    pub ranges: Vec<IpNet>,
}

impl Member {
    /// Whether two nodes with the same address are different machines. `port` is that of this node's kubelet.
    /// Several nodes on one machine share its address, but their ports differ.
    pub fn collides(&self, port: u16) -> bool {
        port == 0 || self.port == 0 || port == self.port
    }
}

/// Whether two CIDRs overlap.
pub fn meet(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}
