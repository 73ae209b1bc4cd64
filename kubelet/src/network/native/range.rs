//! Which addresses a node's pods are given.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use sha2::{Digest as _, Sha256};

use super::across::Across;
use super::bridge::{Laid, overlap};
use super::netlink::Netlink;

/// Nodes that are given no range take a piece of this each, the first that is free where they are; flannel's and kubeadm's usual one.
const OF_LONE_NODES: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 244, 0, 0), 16);
/// The size of such a piece, the stock `--node-cidr-mask-size`.
const PIECE: u8 = 24;
/// What was chosen, so that it stays.
const CHOSEN: &str = "range";
/// The ranges of other nodes.
const CLUSTER: &str = "cluster";
/// All ranges that pods have addresses of.
const ALL: &str = "ranges";
/// Held while a node chooses and until its bridge shows what it has chosen; on the machine, as the addresses are.
const LOCK: &str = "/run/coracle/network.lock";
/// Whoever holds it longer, among as many as start at once, does not go on.
const CHOOSES_WITHIN: Duration = Duration::from_secs(10);

/// The ranges that were asked for, that were chosen before or given by the cluster, or a free one.
///
/// # Errors
/// When what was asked for is in use here.
pub(super) fn settle(
    netlink: &mut Netlink,
    given: &[IpNet],
    directory: &Path,
    across: &Across,
    bridge: &str,
    servers: &[IpAddr],
) -> io::Result<Vec<IpNet>> {
    if !given.is_empty() {
        if let Some(route) = overlap(netlink, given, across, Laid::Apart)? {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                format!(
                    "--pod-cidr {}: this machine reaches {route} already, and pods would take these addresses: give another, or \
                     take that route away (ip route)",
                    list(given, ",")
                ),
            ));
        }
        if let Some(server) = held(given, servers) {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                format!(
                    "--pod-cidr {}: the API server at {server} lies within, which would not be reached any more; give another",
                    list(given, ",")
                ),
            ));
        }
        return Ok(given.to_vec());
    }
    fs::create_dir_all(directory)?;
    let before = read(directory, CHOSEN);
    let is_free = |ranges: &[IpNet]| held(ranges, servers).is_none();
    if !before.is_empty() && is_free(&before) && overlap(netlink, &before, across, Laid::Apart)?.is_none() {
        return Ok(before);
    }
    let pieces = 1_usize << (PIECE - OF_LONE_NODES.1);
    let first = usize::from(Sha256::digest(bridge)[0]);
    let all = (0..pieces).map(|step| piece((first + step) % pieces));
    for range in all {
        if is_free(&[range]) && overlap(netlink, &[range], across, Laid::Too)?.is_none() {
            choose(directory, &[range])?;
            return Ok(vec![range]);
        }
    }
    let (ip, length) = OF_LONE_NODES;
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("nothing of {ip}/{length} is free on this machine: give a range that is by --pod-cidr"),
    ))
}

/// The first of these addresses that lies in one of the ranges: it would be taken for a pod's.
pub(super) fn held(ranges: &[IpNet], addresses: &[IpAddr]) -> Option<IpAddr> {
    addresses.iter().copied().find(|ip| ranges.iter().any(|range| range.contains(ip)))
}

/// Writes down which ranges are the node's, for the next time.
pub(super) fn choose(directory: &Path, ranges: &[IpNet]) -> io::Result<()> {
    write(directory, CHOSEN, ranges)
}

/// What other nodes had when they were last heard of.
pub(super) fn cluster(directory: &Path) -> Vec<IpNet> {
    read(directory, CLUSTER)
}

/// Writes down what other nodes have: the next kubelet lets pods go there as who they are before it has heard of any.
pub(super) fn keep_cluster(directory: &Path, ranges: &[IpNet]) -> io::Result<()> {
    write(directory, CLUSTER, ranges)
}

/// Of the ranges that pods had addresses of when that was last written down, those that no pod has any more.
pub(super) fn former(directory: &Path, ranges: &[IpNet], addresses: &[IpAddr]) -> (Vec<IpNet>, Vec<IpNet>) {
    let before = read(directory, ALL).into_iter().filter(|range| !ranges.contains(range));
    before.partition(|range| addresses.iter().any(|ip| range.contains(ip)))
}

/// Writes down all ranges that pods have addresses of.
pub(super) fn keep_all(directory: &Path, ranges: &[IpNet]) -> io::Result<()> {
    write(directory, ALL, ranges)
}

/// What was not written is not there; what does not read is not known.
fn read(directory: &Path, file: &str) -> Vec<IpNet> {
    let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
    text.split_whitespace().filter_map(|range| range.parse().ok()).collect()
}

/// Whole or not at all, and only when it is something else.
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

/// Ranges as people read them.
pub(super) fn list(ranges: &[impl ToString], between: &str) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
}

fn piece(number: usize) -> IpNet {
    let first = u32::from(OF_LONE_NODES.0) + ((number as u32) << (32 - PIECE));
    IpNet::V4(Ipv4Net::new_assert(first.into(), PIECE))
}

/// The lock under which nodes of one machine choose, until it is dropped; `None` where none can be had.
///
/// # Errors
/// When another one keeps it; it may be tried again.
pub(super) fn lock() -> io::Result<Option<File>> {
    lock_within(Path::new(LOCK), CHOOSES_WITHIN)
}

/// The same without waiting.
///
/// # Errors
/// As of that.
pub(super) fn lock_now() -> io::Result<Option<File>> {
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
                    "another kubelet of this machine chooses the range of its pods: see who holds {path} \
                     (fuser {path}) and end it, or let it go on if it was stopped, where that lasts"
                ),
            ))
        }
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
