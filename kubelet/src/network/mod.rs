//! The pod network: which component gives a sandbox its addresses.
//!
//! There are two implementations. Either the engine uses its own bridge, or the kubelet ([`native`]) connects
//! sandboxes that the engine creates without a network. The native one is faster and can reach other nodes.
//! [`Networked`] wraps the engine, so that in both cases the rest of the kubelet sees sandboxes with addresses.

mod files;
pub mod native;
mod networked;
pub mod nft;

use std::fs;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use ipnet::IpNet;
use rustix::net::sockopt::socket_peercred;
use rustix::thread::{CapabilitySet, capabilities};

use crate::disk;
use crate::report::{About, Outbox, Severity};

pub use native::{Native, NodeDns};
pub use networked::Networked;

/// Records an event of the Node about the pod network, and logs Normal events. `status` logs Warning events.
pub fn record_event(
    outbox: &Arc<Outbox>,
    node: &str,
    severity: Severity,
    reason: &'static str,
    text: String,
) {
    if severity == Severity::Normal {
        tracing::info!(reason, "{text}");
    }
    outbox.note(About::node(node), severity, reason, text);
}

/// The reason why the kubelet cannot provide the pod network with this engine. `None` if it can, or if the engine
/// does not answer.
pub async fn obstacle(endpoint: &str) -> Option<String> {
    let endpoint = endpoint.to_owned();
    disk::run(move || look(&endpoint)).await
}

fn look(endpoint: &str) -> Option<String> {
    let Some(socket) = endpoint.strip_prefix("unix://") else {
        return Some(format!("the engine at {endpoint} may be on another machine"));
    };
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    if !capabilities(None).is_ok_and(|has| has.effective.contains(needed)) {
        return Some("it needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN)".to_owned());
    }
    let engine = socket_peercred(UnixStream::connect(socket).ok()?.as_fd()).ok()?;
    if !engine.uid.is_root() {
        return Some("the engine runs without root".to_owned());
    }
    let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net"));
    match (network(&engine.pid.as_raw_nonzero().to_string()), network("self")) {
        (Ok(engine), Ok(own)) if engine == own => None,
        (Ok(_), Ok(_)) => Some("the engine is in another network namespace than the kubelet".to_owned()),
        _ => Some("the engine's processes are not visible here".to_owned()),
    }
}

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
    /// The port of the peer's kubelet; 0 if it is unknown.
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
