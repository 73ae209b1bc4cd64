//! The nftables tables that enforce NetworkPolicies: what they should contain, independent of their form in the kernel.
//! Pure.
//!
//! The table of family `inet` decides about forwarded packets, after DNAT. A packet of an established connection
//! passes at once. For a new one, a map leads from the address of an isolated pod to the chain of its rules. Pods
//! with the same rules share a chain. The peers of a rule are elements of a set, so a peer that starts or ends changes
//! only elements.
//!
//! Frames between pods of one bridge may pass no rules for IP. The table of family `bridge` therefore hands the frames
//! of isolated pods to the IP layer of the node, and drops multicast and broadcast frames to and from them.

mod bridge;
mod content;
mod inet;
mod table;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use sha2::{Digest, Sha256};

use super::Protocol;
use super::antispoof::link_local;

pub use table::{Applied, PolicyTable};

/// Identifies a chain, a set of peers or a set of named ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyId(u64);

impl PolicyId {
    /// The ID of this text. Texts of different objects must differ.
    pub fn of(text: &str) -> Self {
        let digest = Sha256::digest(text);
        Self(digest.iter().take(8).fold(0, |id, byte| (id << 8) | u64::from(*byte)))
    }
}

/// The direction in which a pod is isolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Connections to the pod.
    Ingress,
    /// Connections from the pod.
    Egress,
}

/// Destination ports of one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports {
    /// The protocol.
    pub protocol: Protocol,
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

/// Connections that a chain allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allow {
    /// Those with these peers and ports.
    Peers {
        /// The set of peers. `None` for all peers.
        peers: Option<PolicyId>,
        /// The destination ports. `None` for all ports of all protocols.
        ports: Option<Ports>,
    },
    /// Those to the destinations in a set of named ports.
    Destinations(PolicyId),
}

/// A rule of a chain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChainRule {
    /// The policy, for the comment of the rule.
    pub policy: String,
    /// What it allows.
    pub allow: Allow,
}

/// The rules of a chain. Other connections are dropped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chain {
    /// The direction.
    pub direction: Direction,
    /// What is allowed.
    pub rules: Vec<ChainRule>,
}

/// The peers of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// The addresses of the pods.
    pub pods: BTreeSet<IpAddr>,
    /// The blocks, without their exceptions.
    pub blocks: Vec<IpNet>,
}

/// An isolated pod of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IsolatedPod {
    /// The name of its bridge port.
    pub port: String,
    /// The hardware address of the pod.
    pub mac: [u8; 6],
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// The chain for ingress. `None` if the pod is not isolated in this direction.
    pub ingress: Option<PolicyId>,
    /// The chain for egress, likewise.
    pub egress: Option<PolicyId>,
}

impl IsolatedPod {
    /// The addresses, and the link-local one. The IP layer forwards packets with link-local addresses back to the bridge
    /// by which they came.
    fn all_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.addresses.iter().copied().chain([IpAddr::V6(link_local(self.mac))])
    }
}

/// All rules of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRules {
    /// The isolated pods of this node.
    pub pods: Vec<IsolatedPod>,
    /// The chains that the pods name.
    pub chains: BTreeMap<PolicyId, Chain>,
    /// The peers that the chains name.
    pub peers: BTreeMap<PolicyId, Peers>,
    /// The sets of named ports that the chains name: address, protocol and port of each destination.
    pub destinations: BTreeMap<PolicyId, BTreeSet<(IpAddr, Protocol, u16)>>,
}

/// The parameters of a node for the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyNode {
    /// The name of both tables.
    pub name: String,
    /// The hardware address of the pods' bridge.
    pub bridge_mac: [u8; 6],
}
