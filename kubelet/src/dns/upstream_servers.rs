//! The name servers of the host, as its resolv.conf names them. Follows changes of the file.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::PORT;
use super::resolver::Resolver;
use crate::disk;
use crate::network::record_event;
use crate::report::{Outbox, Severity};
use crate::runtime::spec::Dns;

/// How often the host's resolv.conf is read. DHCP and VPN clients change it.
const RESOLV_CONF_INTERVAL: Duration = Duration::from_secs(5);
/// The directory with the network interfaces of the host.
const INTERFACES: &str = "/sys/class/net";

/// Sets the upstream servers, and reports problems with them.
pub(super) struct UpstreamServers {
    resolver: Arc<Resolver>,
    node: String,
    outbox: Arc<Outbox>,
    /// The problem that was reported last, until it is solved.
    problem: Option<String>,
    /// The entries of resolv.conf that are not addresses.
    invalid: Vec<String>,
}

impl UpstreamServers {
    /// No servers yet.
    pub fn new(resolver: Arc<Resolver>, node: String, outbox: Arc<Outbox>) -> Self {
        Self { resolver, node, outbox, problem: None, invalid: Vec::new() }
    }

    /// Reads the name servers again and again. Never ends.
    pub async fn follow(mut self, host_dns: Box<dyn Fn() -> io::Result<Dns> + Send + Sync>) {
        let host_dns: Arc<dyn Fn() -> io::Result<Dns> + Send + Sync> = host_dns.into();
        loop {
            let read = host_dns.clone();
            let found = disk::run(move || read().map(|dns| parse_all(&dns.servers, Path::new(INTERFACES))));
            self.apply(found.await);
            tokio::time::sleep(RESOLV_CONF_INTERVAL).await;
        }
    }

    /// Applies the content of the file. Without a usable server, the previous ones are kept: programs that write the file
    /// remove it for a moment.
    fn apply(&mut self, found: io::Result<(Vec<SocketAddr>, Vec<String>)>) {
        let problem = match found {
            Err(error) => error.to_string(),
            Ok((servers, invalid)) => {
                if invalid != self.invalid && !invalid.is_empty() {
                    let entries = invalid.join(", ");
                    tracing::warn!(
                        "the resolv.conf of the node has name servers that cannot be used: {entries}"
                    );
                }
                self.invalid = invalid;
                let servers = self.resolver.others(servers);
                if !servers.is_empty() {
                    self.problem = None;
                    let named: Vec<String> = servers.iter().map(|server| server.ip().to_string()).collect();
                    if self.resolver.set_upstreams(servers) {
                        tracing::info!("names outside the cluster are resolved by {}", named.join(", "));
                    }
                    return;
                }
                "the resolv.conf of the node names no server that can be used".to_owned()
            }
        };
        if self.problem.as_ref() != Some(&problem) {
            let text = format!(
                "the DNS server finds no name server for names outside the cluster: {problem}. It uses those that it \
                 found before, if there are any"
            );
            record_event(&self.outbox, &self.node, Severity::Warning, "DNSUpstreamMissing", text);
            self.problem = Some(problem);
        }
    }
}

/// The addresses of name servers, and the entries that are none.
fn parse_all(servers: &[String], interfaces: &Path) -> (Vec<SocketAddr>, Vec<String>) {
    let (mut addresses, mut invalid) = (Vec::new(), Vec::new());
    for server in servers {
        match parse(server, interfaces) {
            Some(address) => addresses.push(address),
            None => invalid.push(server.clone()),
        }
    }
    (addresses, invalid)
}

/// The address of a name server. Unlike a pod, the kubelet can reach a server on the host's loopback, or at a link-local
/// address such as `fe80::1%eth0`.
fn parse(server: &str, interfaces: &Path) -> Option<SocketAddr> {
    let Some((address, interface)) = server.split_once('%') else {
        return server.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT));
    };
    let index = || {
        let file = interfaces.join(Path::new(interface).file_name()?).join("ifindex");
        fs::read_to_string(file).ok()?.trim().parse().ok()
    };
    let scope = interface.parse().ok().or_else(index)?;
    Some(SocketAddrV6::new(address.parse().ok()?, PORT, 0, scope).into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::dns::resolver::tests::resolver;

    #[test]
    fn link_local_servers_are_parsed_with_their_interface() {
        let interfaces = tempfile::tempdir().unwrap();
        fs::create_dir(interfaces.path().join("eth0")).unwrap();
        fs::write(interfaces.path().join("eth0/ifindex"), "7\n").unwrap();
        let servers = [
            "127.0.0.53",
            "::1",
            "fe80::1%eth0",
            "fe80::1%3",
            "fe80::1%eth9",
            "10.0.0.1%eth0",
            "dns.example",
        ];
        let (addresses, invalid) = parse_all(&servers.map(str::to_owned), interfaces.path());
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["127.0.0.53:53", "[::1]:53", "[fe80::1%7]:53", "[fe80::1%3]:53"]);
        assert_eq!(invalid, ["fe80::1%eth9", "10.0.0.1%eth0", "dns.example"]);
    }

    #[test]
    fn the_previous_servers_are_kept_while_resolv_conf_names_none() {
        let resolver = Arc::new(resolver());
        let mut servers = UpstreamServers::new(resolver.clone(), "node".to_owned(), Arc::default());
        let found: Vec<SocketAddr> = vec!["192.0.2.53:53".parse().unwrap()];
        servers.apply(Ok((found.clone(), Vec::new())));
        for missing in [Err(io::ErrorKind::NotFound.into()), Ok((Vec::new(), Vec::new()))] {
            servers.apply(missing);
            assert!(servers.problem.is_some());
            assert!(!resolver.set_upstreams(found.clone()), "they did not change");
        }
        servers.apply(Ok((found, Vec::new())));
        assert_eq!(servers.problem, None);
    }
}
