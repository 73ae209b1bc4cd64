//! Under which names a node may serve without anybody being asked: its name, what its object says, and where it asks from.
//!
//! A node writes its own object, so what is there proves nothing of names that others rely on: those of the master, but for a
//! node beside it, and those by which pods find services.

use std::net::IpAddr;

use super::{Asked, Known, Verdict};
use crate::pki::Names;

/// What becomes of a node's own request to serve under these names.
pub(super) fn judge(names: &Names, asked: &Asked, known: &Known) -> Verdict {
    let dns = names.dns.iter().find_map(|name| of_dns(&name.to_lowercase(), asked, known));
    let why = dns.or_else(|| names.addresses.iter().find_map(|ip| of_address(*ip, asked, known)));
    why.map_or_else(|| Verdict::Approve("the node serves under its own addresses".to_owned()), Verdict::Wait)
}

/// Why a node may not be called that without anybody being asked.
fn of_dns(name: &str, asked: &Asked, known: &Known) -> Option<String> {
    if is_everybodys(name) {
        return Some(format!("{name} is a name of the cluster's and no machine's"));
    }
    if known.masters.dns.contains(name) && !is_beside(asked, known) {
        return Some(format!("{name} is a name of the master, and the request does not come from there"));
    }
    let is_own = name == asked.node || known.names.dns.contains(name);
    (!is_own).then(|| foreign(name, asked))
}

fn of_address(ip: IpAddr, asked: &Asked, known: &Known) -> Option<String> {
    if known.masters.addresses.contains(&ip) && !is_beside(asked, known) {
        return Some(format!("{ip} is an address of the master, and the request does not come from there"));
    }
    let is_own = Some(ip) == asked.peer || known.names.addresses.contains(&ip);
    (!is_own).then(|| foreign(&ip.to_string(), asked))
}

fn foreign(name: &str, asked: &Asked) -> String {
    format!(
        "{name} is neither a name or an address of the node {} by its status, nor where the request came from",
        asked.node
    )
}

/// Names by which the API and services are found, and those that are no single machine's.
fn is_everybodys(name: &str) -> bool {
    let mut labels = name.split('.');
    name.starts_with('*')
        || ["kubernetes", "localhost"].contains(&labels.next().unwrap_or_default())
        || labels.any(|label| label == "svc")
}

/// Whether the request comes from the machine of the master.
fn is_beside(asked: &Asked, known: &Known) -> bool {
    asked.peer.is_some_and(|peer| peer.is_loopback() || known.masters.addresses.contains(&peer))
}
