//! Selects the node's pod CIDR, and stores the pod CIDRs on disk.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use sha2::{Digest as _, Sha256};

use super::bridge::{OwnRoutes, overlap};
use super::netlink::Netlink;
use super::peer_routes::PeerRoutes;

/// The network from which a node without an assigned pod CIDR selects the first free part. It is the usual one of
/// flannel and kubeadm.
const DEFAULT_CLUSTER_CIDR: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 244, 0, 0), 16);
/// The prefix length of a node's part, as the stock `--node-cidr-mask-size`.
const NODE_PREFIX_LENGTH: u8 = 24;
/// The file with the selected pod CIDRs.
const SELECTED_FILE: &str = "range";
/// The file with the pod CIDRs of peers.
const CLUSTER_FILE: &str = "cluster";
/// The file with all CIDRs in which pods have addresses.
const ALL_FILE: &str = "ranges";
/// Lock file of the machine. It is locked from the selection of a CIDR until the bridge has its address.
const LOCK: &str = "/run/coracle/network.lock";
/// Longest wait for the lock. A kubelet that keeps it longer hangs.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The requested pod CIDRs, otherwise the stored ones, otherwise a free one.
///
/// # Errors
/// If the requested CIDRs are in use, or none is free.
pub(super) fn select(
    netlink: &mut Netlink,
    requested: &[IpNet],
    directory: &Path,
    peer_routes: &PeerRoutes,
    bridge: &str,
    servers: &[IpAddr],
) -> io::Result<Vec<IpNet>> {
    if !requested.is_empty() {
        if let Some(route) = overlap(netlink, requested, peer_routes, OwnRoutes::Ignore)? {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                format!(
                    "--pod-cidr {} overlaps the route of this machine to {route}: use another pod CIDR, or remove \
                     the route (ip route)",
                    list(requested, ",")
                ),
            ));
        }
        if let Some(server) = address_within(requested, servers) {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                format!(
                    "--pod-cidr {} contains the address {server} of the API server, which would become \
                     unreachable: use another pod CIDR",
                    list(requested, ",")
                ),
            ));
        }
        return Ok(requested.to_vec());
    }
    fs::create_dir_all(directory)?;
    let before = read(directory, SELECTED_FILE);
    let holds_no_server = |ranges: &[IpNet]| address_within(ranges, servers).is_none();
    if !before.is_empty()
        && holds_no_server(&before)
        && overlap(netlink, &before, peer_routes, OwnRoutes::Ignore)?.is_none()
    {
        return Ok(before);
    }
    let pieces = 1_usize << (NODE_PREFIX_LENGTH - DEFAULT_CLUSTER_CIDR.1);
    let first = usize::from(Sha256::digest(bridge)[0]);
    let all = (0..pieces).map(|step| node_cidr((first + step) % pieces));
    for range in all {
        if holds_no_server(&[range]) && overlap(netlink, &[range], peer_routes, OwnRoutes::Count)?.is_none() {
            save_selected(directory, &[range])?;
            return Ok(vec![range]);
        }
    }
    let (ip, length) = DEFAULT_CLUSTER_CIDR;
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("no part of {ip}/{length} is free on this machine: specify a free range with --pod-cidr"),
    ))
}

/// The first address that is in one of the CIDRs.
pub(super) fn address_within(ranges: &[IpNet], addresses: &[IpAddr]) -> Option<IpAddr> {
    addresses.iter().copied().find(|ip| ranges.iter().any(|range| range.contains(ip)))
}

/// Stores the node's pod CIDRs for the next start.
pub(super) fn save_selected(directory: &Path, ranges: &[IpNet]) -> io::Result<()> {
    write(directory, SELECTED_FILE, ranges)
}

/// The stored pod CIDRs of the peers.
pub(super) fn saved_cluster(directory: &Path) -> Vec<IpNet> {
    read(directory, CLUSTER_FILE)
}

/// Stores the pod CIDRs of the peers. The next kubelet then does not masquerade towards them before it knows the
/// membership.
pub(super) fn save_cluster(directory: &Path, ranges: &[IpNet]) -> io::Result<()> {
    write(directory, CLUSTER_FILE, ranges)
}

/// Splits the stored CIDRs that are not in `ranges` into those with pods and those without.
pub(super) fn former(directory: &Path, ranges: &[IpNet], addresses: &[IpAddr]) -> (Vec<IpNet>, Vec<IpNet>) {
    let before = read(directory, ALL_FILE).into_iter().filter(|range| !ranges.contains(range));
    before.partition(|range| addresses.iter().any(|ip| range.contains(ip)))
}

/// Stores all CIDRs in which pods have addresses.
pub(super) fn save_all(directory: &Path, ranges: &[IpNet]) -> io::Result<()> {
    write(directory, ALL_FILE, ranges)
}

/// Reads CIDRs from a file. A missing file is empty; invalid entries are skipped.
fn read(directory: &Path, file: &str) -> Vec<IpNet> {
    let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
    text.split_whitespace().filter_map(|range| range.parse().ok()).collect()
}

/// Writes the file atomically if it changes.
fn write(directory: &Path, file: &str, ranges: &[IpNet]) -> io::Result<()> {
    let text = ranges.iter().map(|range| format!("{range}\n")).collect::<String>();
    let path = directory.join(file);
    if fs::read_to_string(&path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    new.write_all(text.as_bytes())?;
    new.persist(&path)?;
    Ok(())
}

/// Joins CIDRs into one text.
pub(super) fn list(ranges: &[impl ToString], between: &str) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
}

fn node_cidr(number: usize) -> IpNet {
    let first = u32::from(DEFAULT_CLUSTER_CIDR.0) + ((number as u32) << (32 - NODE_PREFIX_LENGTH));
    IpNet::V4(Ipv4Net::new_assert(first.into(), NODE_PREFIX_LENGTH))
}

/// Takes the lock for the selection of a CIDR on this machine. Returns `None` if no lock file can be created.
///
/// # Errors
/// If another kubelet has the lock. The caller may retry later.
pub(super) fn lock() -> io::Result<Option<File>> {
    lock_within(Path::new(LOCK), LOCK_TIMEOUT)
}

/// Takes the lock without waiting.
///
/// # Errors
/// The same as [`lock`].
pub(super) fn try_lock() -> io::Result<Option<File>> {
    lock_within(Path::new(LOCK), Duration::ZERO)
}

fn lock_within(path: &Path, limit: Duration) -> io::Result<Option<File>> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| File::create(path));
    let Ok(file) = made else { return Ok(None) };
    match command::lock(&file, limit) {
        Ok(true) => Ok(Some(file)),
        Ok(false) => {
            let path = path.display();
            Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                format!(
                    "another kubelet on this machine is choosing its pod CIDR; if this lasts, find the process \
                     that locks {path} (fuser {path}), and end it, or resume it if it is stopped"
                ),
            ))
        }
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the timeout of the lock for choosing a pod CIDR.

    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::io::ErrorKind;
    use std::time::Duration;

    use super::lock_within;

    #[test]
    fn lock_wait_has_a_timeout() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("coracle/network.lock");
        let take = || lock_within(&path, Duration::from_millis(50));
        let address_within = take().unwrap();
        assert!(address_within.is_some());
        let error = take().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(error.to_string().contains(&format!("fuser {}", path.display())), "{error}");
        drop(address_within);
        assert!(take().unwrap().is_some());
    }
}
