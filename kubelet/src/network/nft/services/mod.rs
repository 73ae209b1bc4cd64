//! The nftables table of the service proxy: what it should contain, independent of its form in the kernel. Pure.
//!
//! The table has maps from address, protocol and port of a Service to a chain, and from the same key with a number to
//! an endpoint. A chain exists once per number of endpoints, because `numgen` needs a constant modulus. It draws a
//! random number below that, and looks up the endpoint. A new connection needs the same few lookups, whatever the
//! number of Services, and a change of a Service changes only elements of maps.

mod affinity;
mod clients;
mod elements;
mod layout;
mod reader;
mod sources;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use sha2::{Digest, Sha256};

use super::Protocol;

pub use affinity::AFFINITY_SIZE;
pub use table::{Applied, ServiceTable};

/// The bit of the packet mark of forwarded packets that belong to a connection to a Service. A chain of this table sets
/// it, and a rule in other firewalls accepts it. Kubernetes components use the bits 13 to 15.
pub const SERVICE_MARK: u32 = 1 << 12;

/// The prefix of the names of all bridges of kubelets.
pub const BRIDGE_PREFIX: &str = "coracle-";

/// From where a connection to a Service comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// From this node or one of its pods.
    Inside,
    /// From elsewhere.
    Outside,
}

impl Side {
    /// Both sides.
    pub const BOTH: [Self; 2] = [Self::Inside, Self::Outside];
}

/// An address and port at which clients find a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceAddress {
    /// The address. The unspecified address means all addresses of this node except the loopback ones.
    pub ip: IpAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

impl ServiceAddress {
    /// Whether it is a port at all addresses of this node.
    pub fn is_node_port(&self) -> bool {
        self.ip.is_unspecified()
    }
}

/// Identifies a group of endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(u64);

impl GroupId {
    /// The ID of the group with this name. Names of different groups must differ.
    pub fn of(name: &str) -> Self {
        let digest = Sha256::digest(name);
        Self(digest.iter().take(8).fold(0, |id, byte| (id << 8) | u64::from(*byte)))
    }
}

/// What happens to a connection to a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// It goes to an endpoint of the group.
    Group(GroupId),
    /// It is rejected, by a TCP reset or as an unreachable port.
    Reject,
    /// Its packets are dropped.
    Drop,
}

/// Endpoints among which connections are distributed evenly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// How long a client without a new connection stays with its endpoint, in seconds. `None` without session
    /// affinity.
    pub affinity_seconds: Option<u32>,
    /// The endpoints, all of one family, sorted and without duplicates; not empty.
    pub endpoints: Vec<SocketAddr>,
}

/// All Services of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceRules {
    /// Where connections go, by side and address.
    pub targets: BTreeMap<(Side, ServiceAddress), Target>,
    /// The groups that the targets name.
    pub groups: BTreeMap<GroupId, Group>,
    /// The only sources that reach an address, all of its family. Other addresses admit all sources.
    pub sources: BTreeMap<ServiceAddress, Vec<IpNet>>,
    /// Addresses at which clients other than pods of this node get the address of this node.
    pub masqueraded: BTreeSet<ServiceAddress>,
    /// Endpoints that are pods of this node. If one reaches itself through a Service, it gets the address of this
    /// node, because it would not accept its own.
    pub own_endpoints: BTreeSet<IpAddr>,
    /// The cluster IPs. Connections to their other ports are rejected.
    pub cluster_ips: BTreeSet<IpAddr>,
    /// All endpoints of each UDP address that still serve, also those that get no new connections. The conntrack
    /// entries of other endpoints are deleted.
    pub serving_udp: BTreeMap<SocketAddr, BTreeSet<SocketAddr>>,
}

impl ServiceRules {
    /// The side with the maps of the endpoints of an address. Both sides share them if their targets are equal.
    fn map_side(&self, side: Side, at: ServiceAddress) -> Side {
        let target = |side| self.targets.get(&(side, at));
        if target(Side::Inside) == target(side) { Side::Inside } else { side }
    }

    /// The group of a target, with the side of the maps of its endpoints.
    fn group_of(&self, side: Side, at: ServiceAddress, target: &Target) -> Option<(Side, &Group)> {
        let Target::Group(id) = target else { return None };
        Some((self.map_side(side, at), self.groups.get(id)?))
    }
}

/// The parameters of a node for the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceNode {
    /// The table name.
    pub name: String,
    /// The name of the pods' bridge.
    pub bridge: String,
    /// The pod CIDRs of this node, current and former ones.
    pub cidrs: Vec<IpNet>,
    /// Whether frames between pods of this node pass the rules for IP (`net.bridge.bridge-nf-call-iptables`). If not,
    /// replies between such pods would bypass NAT, so these connections get the address of this node.
    pub filters_bridged: bool,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
