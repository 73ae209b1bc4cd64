//! The names under which a master is reached, all of which its serving certificate holds. Pure.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Names and addresses of a server; equal sets are equal whatever order they were given in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// DNS names.
    pub dns: BTreeSet<String>,
    /// Addresses.
    pub addresses: BTreeSet<IpAddr>,
}

impl Names {
    /// What every master of a cluster is called: the machine itself, and the `kubernetes` service.
    ///
    /// A host name that cannot stand in a certificate is left out: nobody could use it in a URL either.
    pub fn of_master(host_name: &str, cluster_domain: &str, service_addresses: &[IpAddr]) -> Self {
        let mut names = Self::default();
        let host_name = host_name.to_lowercase();
        if is_dns_name(&host_name) {
            names.dns.insert(host_name);
        }
        for name in ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"] {
            names.dns.insert(name.to_owned());
        }
        names.dns.insert(format!("kubernetes.default.svc.{cluster_domain}"));
        names.addresses.extend([IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]);
        names.addresses.extend(service_addresses);
        names
    }

    /// One more, an address or a name.
    pub fn add(&mut self, name: &str) {
        match name.parse() {
            Ok(address) => self.addresses.insert(address),
            Err(_) => self.dns.insert(name.to_lowercase()),
        };
    }
}

/// Whether that is a name a certificate may hold: labels of letters, digits and `-`, the first of which may be `*`.
pub fn is_dns_name(name: &str) -> bool {
    let label = |label: &str| {
        let inside = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        (1..=63).contains(&label.len())
            && label.bytes().all(inside)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let bare = name.strip_prefix("*.").unwrap_or(name);
    name.len() <= 253 && bare.split('.').all(label)
}
