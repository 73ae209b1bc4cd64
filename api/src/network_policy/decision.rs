//! The decision of policies about one connection. Pure.

use std::net::IpAddr;

use super::{Direction, NamespaceLabels, Pod, Policy, Protocol, Rule, RulePort, block_of};

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    /// A pod that is not on the host network, and its address in this connection. A pod may have one per family.
    Pod(&'a Pod, IpAddr),
    /// Any other address.
    Address(IpAddr),
}

impl End<'_> {
    fn address(&self) -> IpAddr {
        match self {
            Self::Pod(_, address) | Self::Address(address) => *address,
        }
    }
}

/// A new connection.
#[derive(Clone, Copy, Debug)]
pub struct Connection<'a> {
    /// The client.
    pub from: End<'a>,
    /// The server.
    pub to: End<'a>,
    /// The protocol.
    pub protocol: Protocol,
    /// The port of the server.
    pub port: u16,
}

/// What the policies say in one direction.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision<'a> {
    /// No policy selects the pod in this direction, so everything is allowed.
    NotIsolated,
    /// These policies allow the connection.
    AllowedBy(Vec<&'a Policy>),
    /// These policies select the pod, and none of them allows the connection.
    BlockedBy(Vec<&'a Policy>),
}

impl Decision<'_> {
    /// Whether the connection is allowed.
    pub fn is_allowed(&self) -> bool {
        match self {
            Self::NotIsolated | Self::AllowedBy(_) => true,
            Self::BlockedBy(_) => false,
        }
    }
}

/// Decides about a connection in one direction: for ingress by the policies of the server, for egress by those of the
/// client. A connection of a pod to itself is always allowed.
pub fn decide<'a>(
    policies: impl IntoIterator<Item = &'a Policy>,
    namespaces: &NamespaceLabels,
    connection: &Connection<'_>,
    direction: Direction,
) -> Decision<'a> {
    let Connection { from, to, .. } = connection;
    let (selected, peer) = match direction {
        Direction::Ingress => (to, from),
        Direction::Egress => (from, to),
    };
    let End::Pod(selected, _) = selected else { return Decision::NotIsolated };
    if matches!(peer, End::Pod(peer, _) if (&peer.namespace, &peer.name) == (&selected.namespace, &selected.name))
    {
        return Decision::NotIsolated;
    }
    let isolating: Vec<&Policy> = policies
        .into_iter()
        .filter(|policy| policy.applies_to(direction) && policy.selects(selected))
        .collect();
    if isolating.is_empty() {
        return Decision::NotIsolated;
    }
    let allows = |policy: &&&Policy| {
        let rules = policy.rules(direction);
        rules.iter().any(|rule| allows_peer(policy, rule, peer, namespaces) && allows_port(rule, connection))
    };
    let allowing: Vec<&Policy> = isolating.iter().filter(allows).copied().collect();
    if allowing.is_empty() { Decision::BlockedBy(isolating) } else { Decision::AllowedBy(allowing) }
}

fn allows_peer(policy: &Policy, rule: &Rule<'_>, peer: &End<'_>, namespaces: &NamespaceLabels) -> bool {
    rule.peers.is_empty()
        || rule.peers.iter().any(|one| {
            let is_selected = matches!(peer, End::Pod(pod, _) if policy.peer_matches(one, pod, namespaces));
            is_selected || block_of(one).iter().any(|range| range.contains(peer.address()))
        })
}

fn allows_port(rule: &Rule<'_>, connection: &Connection<'_>) -> bool {
    let Connection { to, protocol, port, .. } = connection;
    let Some(ports) = rule.ports() else { return true };
    ports.iter().any(|one| match one {
        RulePort::Range(range) => range.contains(*protocol, *port),
        RulePort::Named(of, name) => {
            let End::Pod(pod, _) = to else { return false };
            of == protocol
                && pod
                    .ports
                    .iter()
                    .any(|named| named.name == *name && named.protocol == *protocol && named.number == *port)
        }
    })
}
