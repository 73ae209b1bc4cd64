//! The nodes of a cluster, as far as the network of pods goes by them. Plain types: whoever follows the cluster tells, whoever lays
//! routes listens.

use std::net::IpAddr;

use ipnet::IpNet;

/// What the cluster says at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The ranges that the cluster has for this node's pods, the primary one first; empty while it has none for it.
    pub own: Vec<IpNet>,
    /// The other nodes, the oldest first: of two that claim the same, the older one has it.
    pub others: Vec<Member>,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Whether it has been there for longer than this node.
    pub is_older: bool,
    /// Where it is reached, of each family the first one counts.
    pub addresses: Vec<IpAddr>,
    /// Where its kubelet listens; 0 while nobody has said.
    pub port: u16,
    /// The ranges of its pods; empty while it has none.
    pub ranges: Vec<IpNet>,
}

impl Member {
    /// Whether it and a node of the same address whose kubelet listens at that port are two machines that claim the address: several nodes
    /// of one machine have a port each.
    pub fn collides(&self, port: u16) -> bool {
        port == 0 || self.port == 0 || port == self.port
    }
}

/// Whether two ranges have addresses in common.
pub fn meet(one: &IpNet, other: &IpNet) -> bool {
    one.contains(other) || other.contains(one)
}
