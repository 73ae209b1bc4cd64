//! Which addresses a node's pods are given.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use ipnet::{IpNet, Ipv4Net};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest as _, Sha256};

use super::bridge::overlap;
use super::netlink::Netlink;
use super::record::Record;

/// Nodes that are given no range take a piece of this each, the first that is free where they are; flannel's and kubeadm's usual one.
const OF_LONE_NODES: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 244, 0, 0), 16);
/// The size of such a piece, the stock `--node-cidr-mask-size`.
const PIECE: u8 = 24;
/// What was chosen, so that it stays.
const CHOSEN: &str = "range";
/// All ranges that pods have addresses of.
const ALL: &str = "ranges";
/// Held while a node chooses and until its bridge shows what it has chosen; on the machine, as the addresses are.
const LOCK: &str = "/run/coracle/network.lock";

/// The ranges that were asked for, that were chosen before, or a free one.
///
/// # Errors
/// When what was asked for is in use here.
pub(super) fn settle(
    netlink: &mut Netlink,
    given: &[IpNet],
    directory: &Path,
    bridge: &str,
) -> io::Result<Vec<IpNet>> {
    if !given.is_empty() {
        if let Some(route) = overlap(netlink, given, bridge)? {
            let given: Vec<String> = given.iter().map(ToString::to_string).collect();
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                format!("--pod-cidr {}: this machine reaches {route} already; give another", given.join(",")),
            ));
        }
        return Ok(given.to_vec());
    }
    fs::create_dir_all(directory)?;
    let path = directory.join(CHOSEN);
    let before: Option<IpNet> = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
    if let Some(range) = before
        && overlap(netlink, &[range], bridge)?.is_none()
    {
        return Ok(vec![range]);
    }
    let pieces = 1_usize << (PIECE - OF_LONE_NODES.1);
    let first = usize::from(Sha256::digest(bridge)[0]);
    let all = (0..pieces).map(|step| piece((first + step) % pieces));
    for range in all {
        if overlap(netlink, &[range], bridge)?.is_none() {
            fs::write(&path, range.to_string())?;
            return Ok(vec![range]);
        }
    }
    let (ip, length) = OF_LONE_NODES;
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        format!("nothing of {ip}/{length} is free on this machine: give a range that is by --pod-cidr"),
    ))
}

/// The ranges of now, and those of before that pods still have addresses of; written down for the next time.
pub(super) fn with_former<'a>(
    directory: &Path,
    ranges: &[IpNet],
    records: impl Iterator<Item = &'a Record>,
) -> io::Result<Vec<IpNet>> {
    let path = directory.join(ALL);
    let before = fs::read_to_string(&path).unwrap_or_default();
    let addresses: Vec<IpAddr> = records.flat_map(|record| record.addresses.iter().copied()).collect();
    let former = before.split_whitespace().filter_map(|range| range.parse::<IpNet>().ok());
    let in_use = former.filter(|range| addresses.iter().any(|ip| range.contains(ip)));
    let mut all = ranges.to_vec();
    all.extend(in_use.filter(|range| !ranges.contains(range)));
    let text = all.iter().map(|range| format!("{range}\n")).collect::<String>();
    if text != before {
        fs::write(&path, text)?;
    }
    Ok(all)
}

fn piece(number: usize) -> IpNet {
    let first = u32::from(OF_LONE_NODES.0) + ((number as u32) << (32 - PIECE));
    IpNet::V4(Ipv4Net::new_assert(first.into(), PIECE))
}

/// The lock under which nodes of one machine choose, until it is dropped; `None` where none can be had.
pub(super) fn lock() -> Option<File> {
    fs::create_dir_all(Path::new(LOCK).parent()?).ok()?;
    let file = File::create(LOCK).ok()?;
    flock(&file, FlockOperation::LockExclusive).ok()?;
    Some(file)
}
