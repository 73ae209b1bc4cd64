//! Decides which names a node may have in its serving certificate without an administrator: its own name, its
//! status addresses, and the address of the request.
//!
//! A node writes its own status. The status therefore proves nothing about names on which others rely. An
//! administrator must approve service names, and names of the master unless the node is on the master's machine.

use std::net::IpAddr;

use super::{ApprovalDecision, JoinRequest, NodeFacts};
use crate::pki::Names;

/// Judges a node's request for a serving certificate with these names.
pub(super) fn judge(names: &Names, join: &JoinRequest, known: &NodeFacts) -> ApprovalDecision {
    let dns = names.dns.iter().find_map(|name| check_dns_name(&name.to_lowercase(), join, known));
    let why = dns.or_else(|| names.addresses.iter().find_map(|ip| check_address(*ip, join, known)));
    why.map_or_else(
        || ApprovalDecision::Approve("the node serves under its own addresses".to_owned()),
        ApprovalDecision::Wait,
    )
}

/// The reason why an administrator must approve a DNS name. `None` if it is allowed.
fn check_dns_name(name: &str, join: &JoinRequest, known: &NodeFacts) -> Option<String> {
    if is_shared_name(name) {
        return Some(format!("{name} is a cluster-wide name, not the name of one machine"));
    }
    if known.masters.dns.contains(name) && !is_on_master_machine(join, known) {
        return Some(format!("{name} is a name of the master, and the request does not come from there"));
    }
    let is_own = name == join.node || known.names.dns.contains(name);
    (!is_own).then(|| foreign(name, join))
}

fn check_address(ip: IpAddr, join: &JoinRequest, known: &NodeFacts) -> Option<String> {
    if known.masters.addresses.contains(&ip) && !is_on_master_machine(join, known) {
        return Some(format!("{ip} is an address of the master, and the request does not come from there"));
    }
    let is_own = Some(ip) == join.peer || known.names.addresses.contains(&ip);
    (!is_own).then(|| foreign(&ip.to_string(), join))
}

fn foreign(name: &str, join: &JoinRequest) -> String {
    format!(
        "{name} is neither a name or an address of the node {} by its status, nor where the request came from",
        join.node
    )
}

/// Whether the name belongs to the API or a service, or to no single machine.
fn is_shared_name(name: &str) -> bool {
    let mut labels = name.split('.');
    name.starts_with('*')
        || ["kubernetes", "localhost"].contains(&labels.next().unwrap_or_default())
        || labels.any(|label| label == "svc")
}

/// Whether the request comes from the master's machine.
fn is_on_master_machine(join: &JoinRequest, known: &NodeFacts) -> bool {
    join.peer.is_some_and(|peer| peer.is_loopback() || known.masters.addresses.contains(&peer))
}
