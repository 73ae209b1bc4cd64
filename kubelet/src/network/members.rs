//! The nodes of a cluster, as the pod network needs them. These types connect `cluster`, which publishes them, with the
//! network, which creates routes from them.

use std::net::IpAddr;

use ipnet::IpNet;

/// The cluster membership.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The pod CIDRs that the cluster assigned to this node, the primary one first; empty while there are none.
    pub own: Vec<IpNet>,
    /// The peer nodes, the oldest first. If two nodes claim the same address or CIDR, the older one gets it.
    pub others: Vec<Member>,
}

/// A peer node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The node's name.
    pub name: String,
    /// Whether it was created before this node.
    pub is_older: bool,
    /// Its internal addresses, of which the first of each family is used.
    pub addresses: Vec<IpAddr>,
    /// The port of its kubelet; 0 if unknown.
    pub port: u16,
    /// Its pod CIDRs; empty while it has none.
    pub ranges: Vec<IpNet>,
}

impl Member {
    /// Whether this node and another one with the same address, whose kubelet has that port, are different machines.
    /// Several nodes of one machine share its address and have different ports.
    pub fn collides(&self, port: u16) -> bool {
        port == 0 || self.port == 0 || port == self.port
    }
}

/// Whether two CIDRs overlap.
pub fn meet(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}
