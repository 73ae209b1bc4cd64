//! What a pod finds in `/etc/hosts` and `/etc/resolv.conf` when the kubelet writes them. Pure.

use std::fmt::Write as _;
use std::net::IpAddr;

use crate::runtime::spec::Dns;

/// Lines that every pod has, the stock kubelet's.
const HOSTS: &str = "# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
";

/// `/etc/hosts` of a pod of these addresses and that name.
pub(super) fn hosts(
    addresses: &[IpAddr],
    hostname: Option<&str>,
    domain: Option<&str>,
    aliases: &[(String, IpAddr)],
) -> String {
    let mut text = HOSTS.to_owned();
    if let Some(name) = hostname {
        // A host name that is the whole name already stands once.
        let whole =
            domain.filter(|domain| !name.ends_with(*domain)).map(|domain| format!("{name}.{domain}\t"));
        for ip in addresses {
            let _ = writeln!(text, "{ip}\t{}{name}", whole.as_deref().unwrap_or_default());
        }
    }
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
    }
    for of_one in aliases.chunk_by(|one, other| one.1 == other.1) {
        let names: Vec<&str> = of_one.iter().map(|(name, _)| name.as_str()).collect();
        let _ = writeln!(text, "{}\t{}", of_one[0].1, names.join("\t"));
    }
    text
}

/// The host's resolution without the servers that only the host reaches: a pod would ask itself.
pub(super) fn reachable(mut dns: Dns) -> Dns {
    dns.servers.retain(|server| !server.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()));
    dns
}

/// `/etc/resolv.conf`.
pub(super) fn resolv(dns: &Dns) -> String {
    let mut text = String::new();
    if !dns.searches.is_empty() {
        let _ = writeln!(text, "search {}", dns.searches.join(" "));
    }
    for server in &dns.servers {
        let _ = writeln!(text, "nameserver {server}");
    }
    if !dns.options.is_empty() {
        let _ = writeln!(text, "options {}", dns.options.join(" "));
    }
    text
}

#[cfg(test)]
mod tests;
