//! CPUs, memory, disk, addresses and DNS configuration of this machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

use crate::runtime::spec::Dns;

/// The file with the real name servers, if `/etc/resolv.conf` only names the local stub of systemd-resolved.
const SYSTEMD_RESOLVED: &str = "/run/systemd/resolve/resolv.conf";

/// The number of CPUs.
pub(super) fn cpus() -> i64 {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    i64::try_from(count).unwrap_or(1)
}

/// Whether AppArmor is enabled, according to the sysfs mounted at `sys`.
pub(super) fn has_app_armor(sys: &Path) -> bool {
    let enabled = std::fs::read_to_string(sys.join("module/apparmor/parameters/enabled"));
    enabled.is_ok_and(|text| text.starts_with('Y'))
}

/// Memory of the machine in bytes, or 0 if it is unknown.
pub(super) fn memory_bytes() -> i64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    memory_in(&text)
}

/// Reads `MemTotal` of /proc/meminfo, in bytes.
pub(super) fn memory_in(meminfo: &str) -> i64 {
    bytes_in(meminfo, "MemTotal:").and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(0)
}

/// Reads `MemAvailable` of /proc/meminfo, in bytes.
pub(super) fn memory_available_in(meminfo: &str) -> Option<u64> {
    bytes_in(meminfo, "MemAvailable:")
}

/// Reads a value of /proc/meminfo, and converts it from KiB to bytes.
fn bytes_in(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

/// Size of the file system of a directory in bytes. If the directory does not exist, its nearest existing parent
/// counts.
pub(super) fn disk_bytes(directory: &Path) -> i64 {
    let existing = directory.ancestors().find(|path| path.exists());
    let Some(stat) = existing.and_then(|path| rustix::fs::statvfs(path).ok()) else { return 0 };
    i64::try_from(stat.f_blocks.saturating_mul(stat.f_frsize)).unwrap_or(i64::MAX)
}

/// The addresses of the machine, the primary one first. It is loopback if there is no other.
pub(super) fn addresses() -> Vec<IpAddr> {
    let mut found = Vec::new();
    // Connecting a UDP socket sends nothing; it only makes the kernel select a source address.
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

/// The DNS configuration in a resolv.conf of the host.
///
/// # Errors
/// If the file cannot be read. The message names it.
pub(super) fn host_dns(resolv_conf: &Path) -> io::Result<Dns> {
    let text = std::fs::read_to_string(resolv_conf).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot read {}: {error}", resolv_conf.display()))
    })?;
    let dns = parse_resolv_conf(&text);
    if dns.servers.iter().all(|server| server.starts_with("127.0.0.53")) && !dns.servers.is_empty() {
        return Ok(std::fs::read_to_string(SYSTEMD_RESOLVED).map_or(dns, |text| parse_resolv_conf(&text)));
    }
    Ok(dns)
}

/// Parses resolv.conf(5). The last `search` or `domain` line wins.
pub(super) fn parse_resolv_conf(text: &str) -> Dns {
    let mut dns = Dns::default();
    for line in text.lines() {
        let line = line.split(['#', ';']).next().unwrap_or_default();
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => dns.servers.extend(words.next().map(str::to_owned)),
            Some("search" | "domain") => dns.searches = words.map(str::to_owned).collect(),
            Some("options") => dns.options.extend(words.map(str::to_owned)),
            _ => {}
        }
    }
    dns
}
