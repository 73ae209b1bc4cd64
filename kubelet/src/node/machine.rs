//! Processors, memory, disk and addresses of this machine.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

/// Processors this kubelet's machine has.
pub(super) fn cpus() -> i64 {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    i64::try_from(count).unwrap_or(1)
}

/// Memory of the machine in bytes, 0 when it cannot be told.
pub(super) fn memory_bytes() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    memory_in(&text)
}

/// `MemTotal` of /proc/meminfo.
pub(super) fn memory_in(meminfo: &str) -> i64 {
    bytes_in(meminfo, "MemTotal:").and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(0)
}

/// `MemAvailable` of it: what programs may still have, in bytes.
pub(super) fn memory_available_in(meminfo: &str) -> Option<u64> {
    bytes_in(meminfo, "MemAvailable:")
}

/// A line of /proc/meminfo, which is in KiB.
fn bytes_in(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

/// Size of the file system that directory, or the nearest that exists above it, lies on.
pub(super) fn disk_bytes(directory: &Path) -> i64 {
    let existing = directory.ancestors().find(|path| path.exists());
    let Some(stat) = existing.and_then(|path| rustix::fs::statvfs(path).ok()) else { return 0 };
    i64::try_from(stat.f_blocks.saturating_mul(stat.f_frsize)).unwrap_or(i64::MAX)
}

/// Addresses of the machine, the primary one first; loopback when there is no other.
pub(super) fn addresses() -> Vec<IpAddr> {
    let mut found = Vec::new();
    // A connected UDP socket sends nothing; it only asks the kernel's routes which address it would send from.
    for (any, outside) in [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")] {
        let Ok(socket) = UdpSocket::bind(any) else { continue };
        if socket.connect(outside).is_ok()
            && let Ok(address) = socket.local_addr()
            && !address.ip().is_loopback()
            && !address.ip().is_unspecified()
        {
            found.push(address.ip());
        }
    }
    if found.is_empty() {
        found.push(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    found
}
