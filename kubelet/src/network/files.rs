//! Builds the `/etc/hosts` and `/etc/resolv.conf` of pods. Pure.

use std::fmt::Write as _;
use std::net::IpAddr;

use crate::runtime::spec::Dns;

/// The first lines of every `/etc/hosts`, as the stock kubelet writes them.
const HOSTS: &str = "# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
";

/// Builds the `/etc/hosts` of a pod.
pub(super) fn hosts(
    addresses: &[IpAddr],
    hostname: Option<&str>,
    domain: Option<&str>,
    aliases: &[(String, IpAddr)],
) -> String {
    let mut text = HOSTS.to_owned();
    if let Some(name) = hostname {
        // A host name that ends with the domain is written once.
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

/// Builds the text of `/etc/resolv.conf`.
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
mod tests {
    //! Tests of the exact contents of both files.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::{hosts, resolv};
    use crate::runtime::spec::Dns;

    #[test]
    fn hosts_file_contains_pod_name_and_aliases() {
        let alias = |name: &str, ip: &str| (name.to_owned(), ip.parse().unwrap());
        let aliases = [alias("a", "1.2.3.4"), alias("b", "1.2.3.4"), alias("c", "::9")];
        let addresses = ["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()];
        let text = hosts(&addresses, Some("web"), Some("x.default.svc"), &aliases);
        assert!(text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"));
        assert!(text.ends_with(
        "10.0.0.7\tweb.x.default.svc\tweb\nfd00::7\tweb.x.default.svc\tweb\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n::9\tc\n"
    ));
        let whole = hosts(&addresses[..1], Some("web.x.default.svc"), Some("x.default.svc"), &[]);
        assert!(whole.ends_with("10.0.0.7\tweb.x.default.svc\n"));
    }

    #[test]
    fn resolv_conf_contains_only_configured_lines() {
        let words = |all: &[&str]| all.iter().map(|&word| word.to_owned()).collect();
        let dns = Dns {
            servers: words(&["9.9.9.9", "::1"]),
            searches: words(&["a.b", "c"]),
            options: words(&["ndots:5"]),
            uses_node_dns: false,
        };
        assert_eq!(resolv(&dns), "search a.b c\nnameserver 9.9.9.9\nnameserver ::1\noptions ndots:5\n");
        assert_eq!(resolv(&Dns::default()), "");
        let of_host = Dns { servers: words(&["127.0.0.1", "192.0.2.1", "::1"]), ..dns };
        assert_eq!(of_host.without_loopback().servers, ["192.0.2.1"]);
    }
}
