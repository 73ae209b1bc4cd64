//! The host's own name resolution.

use crate::runtime::spec::Dns;

/// Where the host's resolver keeps its real servers when `/etc/resolv.conf` only names a local stub.
const SYSTEMD_RESOLVED: &str = "/run/systemd/resolve/resolv.conf";

/// What `/etc/resolv.conf` of the host says.
pub(super) fn of_host() -> Dns {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let dns = parse(&text);
    if dns.servers.iter().all(|server| server.starts_with("127.0.0.53")) && !dns.servers.is_empty() {
        return std::fs::read_to_string(SYSTEMD_RESOLVED).map_or(dns, |text| parse(&text));
    }
    dns
}

/// Reads the format of resolv.conf(5); the last `search` or `domain` wins.
pub(super) fn parse(text: &str) -> Dns {
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
