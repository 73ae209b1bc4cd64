//! Which rules for packets a node's sandboxes need, and when they are set.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use ipnet::IpNet;

use super::record::Record;
use super::{Native, Ranges};
use crate::network::nft::{Error, Node, Port, Protocol, Repairs, Rules, legacy};
use crate::runtime::spec::HostPort;

/// A node as its packets see it.
fn node(bridge: &str, ranges: &Ranges) -> Node {
    Node {
        name: bridge.to_owned(),
        bridge: bridge.to_owned(),
        cidrs: ranges.own.all().iter().map(IpNet::trunc).collect(),
        cluster: ranges.others.clone(),
    }
}

/// The ports of the host that lead to a sandbox, in each family that it has an address of.
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

/// Whether all ports of the host that are asked for can be.
///
/// # Errors
/// One is at an address of a family that pods have none of.
pub(super) fn check(ports: &[HostPort], ranges: &[IpNet]) -> Result<(), String> {
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

/// Whether nobody on the host has the ports of a sandbox, which would be reached no more.
///
/// # Errors
/// Somebody has.
pub(super) fn are_free(record: &Record) -> io::Result<()> {
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
                format!("something of the host has port {number}/{protocol} already"),
            ));
        }
    }
    Ok(())
}

/// What somebody should know of rules that cannot be helped, a sentence each.
pub(super) fn closed(repairs: &Repairs) -> impl Iterator<Item = String> {
    repairs.closed.iter().map(|chain| {
        format!("the chain {chain} drops what pods send and get, and only the program that owns it can let them through")
    })
}

impl Native {
    fn packets(&self) -> Node {
        node(&self.bridge.name, &self.ranges())
    }

    /// Sees to it that the rules are there, with the ports of all sandboxes whose cable is laid.
    pub(super) fn ensure_rules(&self) -> io::Result<Repairs> {
        let wanted: BTreeSet<Port> = self.state().all_up().flat_map(|(_, record, _)| ports(record)).collect();
        Rules::open().and_then(|mut rules| rules.ensure(&self.packets(), &wanted)).map_err(io::Error::other)
    }

    /// Lets pods through the firewall of before nf_tables; the chains that had to be opened.
    ///
    /// # Errors
    /// What stands in the way of that.
    pub(super) fn open_legacy(&self) -> Result<Vec<String>, String> {
        legacy::open(&self.bridge.name).map_err(|error| error.to_string())
    }

    /// Opens the ports of a sandbox whose cable is laid; most have none, which costs nothing.
    pub(super) fn open_ports(&self, record: &Record) -> io::Result<()> {
        let ports = ports(record);
        if ports.is_empty() {
            return Ok(());
        }
        match Rules::open().and_then(|mut rules| rules.add(&self.bridge.name, &ports)) {
            Err(Error::Gone { .. }) => self.ensure_rules().map(drop),
            done => done.map_err(io::Error::other),
        }
    }

    /// Closes them again.
    pub(super) fn close_ports(&self, record: &Record) -> io::Result<()> {
        let ports = ports(record);
        if ports.is_empty() {
            return Ok(());
        }
        match Rules::open().and_then(|mut rules| rules.take(&self.bridge.name, &ports)) {
            Err(Error::Gone { .. }) => Ok(()),
            done => done.map_err(io::Error::other),
        }
    }
}

/// Takes all rules of the node with that bridge away.
pub(super) fn remove_rules(bridge: &str) -> io::Result<()> {
    let legacy = legacy::close(bridge).map_err(io::Error::other);
    Rules::open().and_then(|mut rules| rules.remove(bridge)).map_err(io::Error::other)?;
    legacy
}
