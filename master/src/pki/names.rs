//! DNS names and IP addresses of a server certificate. Pure.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Names and addresses of a server, without order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// DNS names.
    pub dns: BTreeSet<String>,
    pub addresses: BTreeSet<IpAddr>,
}

impl Names {
    /// The names of every master: the host, `localhost` and the Service `kubernetes`.
    ///
    /// A host name that is not a valid DNS name is left out, because no URL can contain it.
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

    /// Adds an IP address or a DNS name.
    pub fn add(&mut self, name: &str) {
        match name.parse() {
            Ok(address) => self.addresses.insert(address),
            Err(_) => self.dns.insert(name.to_lowercase()),
        };
    }
}

/// True for a valid DNS name. The first label may be `*`.
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
