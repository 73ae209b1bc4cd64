//! Removes what earlier kubelets of the same directory left in the kernel. A killed kubelet removes nothing. The
//! next one may have another node name, or the engine may provide the pod network.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use super::bridge::Bridge;
use super::netlink::Netlink;
use super::peer_routes::PeerRoutes;
use super::{claim_bridge_name, packet_rules};

/// The file with the names of nodes that had a pod network, one per line.
const NODES_FILE: &str = "nodes";
/// How long the kernel may take to remove a network namespace after its last process. On a busy machine it takes
/// some hundred milliseconds.
pub(super) const VETH_REMOVAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Removes the networks of all nodes that used this directory. A network with pods stays, and that of this node
/// stays if `keeps_own`. A failed removal is repeated at the next start. Blocks.
///
/// # Errors
/// If the list of remaining nodes cannot be written.
pub(super) fn remove_stale(directory: &Path, node: &str, keeps_own: bool) -> io::Result<()> {
    let path = directory.join(NODES_FILE);
    let before = match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let known: BTreeSet<String> = before.as_deref().unwrap_or(node).lines().map(str::to_owned).collect();
    let is_in_use = |name: &String| {
        let remaining = remove_unused(name);
        remaining.unwrap_or_else(|error| {
            tracing::warn!(node = %name, %error, "cannot remove the pod network of an earlier node; retrying at the next \
                 start");
            true
        })
    };
    let is_kept = |name: &str| keeps_own && name == node;
    let mut remaining: BTreeSet<String> =
        known.into_iter().filter(|name| !is_kept(name) && is_in_use(name)).collect();
    if keeps_own {
        remaining.insert(node.to_owned());
    }
    let text: String = remaining.iter().map(|name| format!("{name}\n")).collect();
    if before.as_ref() == Some(&text) {
        // An unchanged list is not written, so that a full disk does not prevent the start.
        return Ok(());
    }
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Removes a node's network, the bridge last.
///
/// # Errors
/// If the kernel rejects a change.
pub(super) fn remove(peer_routes: &mut PeerRoutes, bridge: &Bridge) -> io::Result<()> {
    peer_routes.remove()?;
    packet_rules::remove_rules(&bridge.name)?;
    bridge.remove(&mut Netlink::open()?)
}

/// Removes a node's network unless pods use it. Returns whether it is still in use.
fn remove_unused(node: &str) -> io::Result<bool> {
    let bridge = Bridge::new(node);
    let _name = match claim_bridge_name(&bridge.name, node) {
        Ok(name) => name,
        // Another kubelet runs with that name, or another program holds the name.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(true),
        Err(error) => return Err(error),
    };
    if bridge.attached_veths(&mut Netlink::open()?, VETH_REMOVAL_TIMEOUT)? > 0 {
        return Ok(true);
    }
    remove(&mut PeerRoutes::new(node), &bridge)?;
    Ok(false)
}
