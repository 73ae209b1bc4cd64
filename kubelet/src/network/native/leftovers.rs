//! What earlier kubelets of the same directory left in the kernel. One that was killed takes nothing down, and the next may be of a
//! node of another name, or leave the network of pods to the engine.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use super::across::Across;
use super::bridge::Bridge;
use super::netlink::Netlink;
use super::{packets, take};

/// Nodes that had their network from this directory, a line each.
const NODES: &str = "nodes";
/// How long a network may take to go after the last process that was in it: on a busy machine it is some hundred milliseconds.
pub(super) const GOES_WITHIN: Duration = Duration::from_secs(2);

/// Takes down what is left of the networks of nodes that had theirs from this directory, but of those that pods are still behind, and
/// of this node where it `keeps` its own, or has one from now on. Blocks. What cannot be taken down is tried again the next time.
///
/// # Errors
/// When it cannot be written down which are left.
pub(super) fn give_back(directory: &Path, node: &str, keeps: bool) -> io::Result<()> {
    let path = directory.join(NODES);
    let before = match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let known: BTreeSet<String> = before.as_deref().unwrap_or(node).lines().map(str::to_owned).collect();
    let is_left = |name: &String| {
        let left = take_down_unused(name);
        left.unwrap_or_else(|error| {
            tracing::warn!(node = %name, %error, "what is left of the network of an earlier node is taken down later");
            true
        })
    };
    let is_kept = |name: &str| keeps && name == node;
    let mut left: BTreeSet<String> =
        known.into_iter().filter(|name| !is_kept(name) && is_left(name)).collect();
    if keeps {
        left.insert(node.to_owned());
    }
    let text: String = left.iter().map(|name| format!("{name}\n")).collect();
    if before.as_ref() == Some(&text) {
        // Nor is a full disk a reason not to begin.
        return Ok(());
    }
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Takes down what there is of a node's network, the bridge last.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn take_down(across: &mut Across, bridge: &Bridge) -> io::Result<()> {
    across.remove()?;
    packets::remove_rules(&bridge.name)?;
    bridge.remove(&mut Netlink::open()?)
}

/// Whether it is still in use, so that all of it stays.
fn take_down_unused(node: &str) -> io::Result<bool> {
    let bridge = Bridge::new(node);
    let _name = match take(&bridge.name, node) {
        Ok(name) => name,
        // Another kubelet has it now and answers for it, or somebody else has taken its name.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(true),
        Err(error) => return Err(error),
    };
    if bridge.plugged(&mut Netlink::open()?, GOES_WITHIN)? > 0 {
        return Ok(true);
    }
    take_down(&mut Across::new(node), &bridge)?;
    Ok(false)
}
