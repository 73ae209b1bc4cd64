//! The DNS configuration of pods: the server of the node, while it can answer, and the name servers of the host.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Native;
use crate::disk;
use crate::network::files;
use crate::runtime::spec::Dns;

/// Maximum number of name servers that a resolver uses (`MAXNS` of glibc).
const MAX_SERVERS: usize = 3;

/// Whether pods can use the DNS server of the node. Until a problem is known, they can.
#[derive(Debug, Default)]
pub struct NodeDns {
    /// The addresses at which the server cannot answer.
    silent: Mutex<BTreeSet<IpAddr>>,
    lacks_services: AtomicBool,
}

impl NodeDns {
    /// Sets whether the server answers at an address.
    pub fn set_answers(&self, address: IpAddr, answers: bool) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        if answers {
            silent.remove(&address);
        } else {
            silent.insert(address);
        }
    }

    /// Sets whether the API server lets the node know the Services.
    pub fn set_knows_services(&self, knows: bool) {
        self.lacks_services.store(!knows, Ordering::Relaxed);
    }

    fn can_answer(&self, address: IpAddr) -> bool {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        !silent.contains(&address) && !self.lacks_services.load(Ordering::Relaxed)
    }
}

/// The DNS configuration of a pod that uses the server of the node. Without that server, the pod gets the servers of the
/// host, so that it resolves at least other names than those of the cluster.
fn with_server(dns: &Dns, own: Option<IpAddr>, host: impl FnOnce() -> io::Result<Dns>) -> io::Result<Dns> {
    let first = match own {
        Some(address) => vec![address.to_string()],
        None => host()?.servers,
    };
    let mut servers = first;
    servers.extend(dns.servers.iter().cloned());
    servers.truncate(MAX_SERVERS);
    Ok(Dns { servers, ..dns.clone() })
}

impl Native {
    /// Receives whether pods can use the DNS server of the node.
    pub fn node_dns(&self) -> Arc<NodeDns> {
        self.node_dns.clone()
    }

    /// The DNS server of the node for new pods, if it can answer.
    fn own_server(&self) -> Option<IpAddr> {
        self.gateways.borrow().first().copied().filter(|address| self.node_dns.can_answer(*address))
    }

    /// The resolv.conf of a pod with its own network. Blocks.
    ///
    /// # Errors
    /// If the resolv.conf of the host cannot be read.
    pub(super) fn resolv_conf(&self, dns: &Dns) -> io::Result<String> {
        let host = || (self.host_dns)().map(Dns::without_loopback);
        Ok(files::resolv(&match dns {
            dns if *dns == Dns::default() => host()?,
            dns if dns.uses_node_dns => with_server(dns, self.own_server(), host)?,
            dns => dns.clone(),
        }))
    }

    /// The DNS configuration of a pod on the host network. The address of the server is known after the cluster has
    /// assigned the pod CIDR; without one, the pod uses the servers of the host.
    pub async fn dns_of_host_pod(self: &Arc<Self>, dns: &Dns) -> Dns {
        if !dns.uses_node_dns {
            return dns.clone();
        }
        let has_address = self.readiness.wait().await.is_ok();
        let (native, dns) = (self.clone(), dns.clone());
        let with_server = move || {
            let own = native.own_server().filter(|_| has_address);
            with_server(&dns, own, || (native.host_dns)()).unwrap_or_else(|error| {
                tracing::warn!(%error, "a pod on the host network gets no name server of the host");
                dns
            })
        };
        disk::run(with_server).await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_pod_gets_the_servers_of_the_host_while_the_server_of_the_node_cannot_answer() {
        let words = |all: &[&str]| all.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let dns = Dns { servers: words(&["1.1.1.1"]), uses_node_dns: true, ..Dns::default() };
        let host = Dns { servers: words(&["9.9.9.9", "8.8.8.8", "7.7.7.7"]), ..Dns::default() };
        let address: IpAddr = "10.244.1.1".parse().unwrap();
        let state = NodeDns::default();
        let servers = || {
            let own = Some(address).filter(|address| state.can_answer(*address));
            with_server(&dns, own, || Ok(host.clone())).unwrap().servers
        };
        assert_eq!(servers(), ["10.244.1.1", "1.1.1.1"]);
        state.set_answers("fd00::1".parse().unwrap(), false);
        assert_eq!(servers(), ["10.244.1.1", "1.1.1.1"], "the other address is another matter");
        state.set_answers(address, false);
        assert_eq!(servers(), ["9.9.9.9", "8.8.8.8", "7.7.7.7"]);
        state.set_answers(address, true);
        state.set_knows_services(false);
        assert_eq!(servers(), ["9.9.9.9", "8.8.8.8", "7.7.7.7"]);
        state.set_knows_services(true);
        assert_eq!(servers(), ["10.244.1.1", "1.1.1.1"]);
    }
}
