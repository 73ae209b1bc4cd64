//! Which rules for packets a node's sandboxes need, and when they are set.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

use super::Native;
use super::record::Record;
use crate::network::nft::{Cidr, Error, Node, Port, Protocol, Repairs, Rules, legacy};
use crate::runtime::spec::HostPort;

/// A node as its packets see it.
pub(super) fn node(bridge: &str, ranges: &[IpNet]) -> Node {
    Node {
        name: bridge.to_owned(),
        bridge: bridge.to_owned(),
        cidrs: ranges.iter().filter_map(|range| Cidr::new(range.network(), range.prefix_len())).collect(),
        cluster: Vec::new(),
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

impl Native {
    /// Sees to it that the rules are there, with the ports of all sandboxes whose cable is laid.
    pub(super) fn ensure_rules(&self) -> io::Result<Repairs> {
        let wanted: BTreeSet<Port> = {
            let state = self.state();
            let up = state.sandboxes.values().filter(|sandbox| sandbox.is_up);
            up.flat_map(|sandbox| ports(&sandbox.record)).collect()
        };
        legacy::open(&self.packets).map_err(io::Error::other)?;
        Rules::open().and_then(|mut rules| rules.ensure(&self.packets, &wanted)).map_err(io::Error::other)
    }

    /// Opens the ports of a sandbox whose cable is laid; most have none, which costs nothing.
    pub(super) fn open_ports(&self, record: &Record) -> io::Result<()> {
        let ports = ports(record);
        if ports.is_empty() {
            return Ok(());
        }
        match Rules::open().and_then(|mut rules| rules.add(&self.packets.name, &ports)) {
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
        match Rules::open().and_then(|mut rules| rules.take(&self.packets.name, &ports)) {
            Err(Error::Gone { .. }) => Ok(()),
            done => done.map_err(io::Error::other),
        }
    }

    /// Takes all rules away.
    pub(super) fn remove_rules(&self) -> io::Result<()> {
        legacy::close(&self.packets).map_err(io::Error::other)?;
        Rules::open().and_then(|mut rules| rules.remove(&self.packets.name)).map_err(io::Error::other)
    }
}
