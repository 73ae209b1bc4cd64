//! The packet rules that the node's sandboxes need, and when they are set.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use ipnet::IpNet;

use super::record::Record;
use super::{Native, Ranges, policy_table_of, services_table_of};
use crate::network::nft::policies::PolicyTable;
use crate::network::nft::services::ServiceTable;
use crate::network::nft::{Node, Port, Protocol, Repairs, Rules, legacy};
use crate::runtime::spec::HostPort;

/// The parameters of the node for its packet rules.
fn node(bridge: &str, ranges: &Ranges, serves_services: bool, serves_dns: bool) -> Node {
    Node {
        name: bridge.to_owned(),
        bridge: bridge.to_owned(),
        cidrs: ranges.own.all().iter().map(IpNet::trunc).collect(),
        cluster: ranges.others.clone(),
        serves_services,
        dns_servers: if serves_dns { ranges.own.gateways() } else { Vec::new() },
    }
}

/// The host ports of a sandbox, for each family in which it has an address.
pub(super) fn ports(record: &Record) -> Vec<Port> {
    let of_all = |port| record.addresses.iter().filter_map(move |ip| host_port(port, *ip));
    record.ports.iter().flat_map(of_all).collect()
}

fn host_port(port: &HostPort, ip: IpAddr) -> Option<Port> {
    let protocol = match port.protocol.as_str() {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        _ => return None,
    };
    let everywhere = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let at = port.host_ip.unwrap_or(everywhere);
    Port::new(at, protocol, port.host_port, SocketAddr::new(ip, port.container_port))
}

/// Checks that all host ports can be served.
///
/// # Errors
/// If a host port is bound to an address of a family without a pod CIDR.
pub(super) fn check_families(ports: &[HostPort], ranges: &[IpNet]) -> Result<(), String> {
    let cannot = |port: &&HostPort| {
        port.host_ip.is_some_and(|ip| !ranges.iter().any(|range| range.addr().is_ipv4() == ip.is_ipv4()))
    };
    ports.iter().find(cannot).map_or(Ok(()), |port| {
        let (number, ip) = (port.host_port, port.host_ip.map(|ip| ip.to_string()).unwrap_or_default());
        Err(format!(
            "hostPort {number} at {ip}: pods of this node have no address of that family; see --pod-cidr"
        ))
    })
}

/// Checks that no program of the host uses the host ports, because DNAT would hide it.
///
/// # Errors
/// If a port is in use.
pub(super) fn check_host_ports_free(record: &Record) -> io::Result<()> {
    for port in &record.ports {
        let at = SocketAddr::new(port.host_ip.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), port.host_port);
        let bound = match port.protocol.as_str() {
            "tcp" => TcpListener::bind(at).map(drop),
            "udp" => UdpSocket::bind(at).map(drop),
            _ => Ok(()),
        };
        if let Err(error) = bound
            && error.kind() == io::ErrorKind::AddrInUse
        {
            let (number, protocol) = (port.host_port, &port.protocol);
            return Err(io::Error::new(
                error.kind(),
                format!("another program on the host already uses port {number}/{protocol}"),
            ));
        }
    }
    Ok(())
}

/// Warnings about chains that drop traffic of pods and cannot be changed.
pub(super) fn closed_warnings(repairs: &Repairs) -> impl Iterator<Item = String> {
    repairs.closed.iter().map(|chain| {
        format!(
            "the chain {chain} drops packets of pods, and only the program that owns the chain can change it"
        )
    })
}

impl Native {
    fn rules_node(&self) -> Node {
        node(&self.bridge.name, &self.ranges(), self.serves_services, self.serves_dns)
    }

    /// Ensures the rules, with the host ports and the addresses of all sandboxes that are up.
    pub(super) fn ensure_rules(&self) -> io::Result<Repairs> {
        let wanted: BTreeSet<Port> = self.state().all_up().flat_map(|(_, record, _)| ports(record)).collect();
        let pods = self.pod_ports();
        Rules::open()
            .and_then(|mut rules| rules.ensure(&self.rules_node(), &wanted, &pods))
            .map_err(io::Error::other)
    }

    /// Allows traffic of pods in the firewall of iptables-legacy. Returns the chains that were changed.
    ///
    /// # Errors
    /// If the legacy firewall rules cannot be changed. The error is the reason.
    pub(super) fn open_legacy_firewall(&self) -> Result<Vec<String>, String> {
        let Node { bridge, dns_servers, .. } = self.rules_node();
        legacy::open(&bridge, self.serves_services, &dns_servers).map_err(|error| error.to_string())
    }

    /// Does [`Native::open_legacy_firewall`], and logs its error. Returns the chains that were changed.
    pub(super) fn try_open_legacy_firewall(&self) -> Vec<String> {
        // If that firewall was in use at the start, an event has reported the error.
        self.open_legacy_firewall().unwrap_or_else(|error| {
            tracing::warn!(%error, "the legacy iptables firewall may drop packets of pods");
            Vec::new()
        })
    }
}

/// Removes all rules of the node with this bridge.
pub(super) fn remove_rules(bridge: &str) -> io::Result<()> {
    let legacy = legacy::close(bridge).map_err(io::Error::other);
    Rules::open().and_then(|mut rules| rules.remove(bridge)).map_err(io::Error::other)?;
    let services = services_table_of(bridge);
    ServiceTable::open().and_then(|mut table| table.remove(&services)).map_err(io::Error::other)?;
    let policies = policy_table_of(bridge);
    PolicyTable::open().and_then(|mut table| table.remove(&policies)).map_err(io::Error::other)?;
    legacy
}
