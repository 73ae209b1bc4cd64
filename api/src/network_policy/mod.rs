//! The semantics of NetworkPolicies: which pods a policy selects, which traffic its rules allow, and the decision about
//! one connection. Pure.
//!
//! The kubelet turns the rules into packet rules, and `master check connection` decides about single connections. Both
//! use the functions of this module, so they agree.

mod decision;
mod ranges;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::networking::v1::{NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};

pub use self::decision::{Connection, Decision, End, decide};
pub use self::ranges::AddressRange;

/// Labels of a pod or namespace.
pub type Labels = BTreeMap<String, String>;
/// The labels of each namespace.
pub type NamespaceLabels = BTreeMap<String, Labels>;

/// The direction of traffic, as the selected pod sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// To the selected pod.
    Ingress,
    /// From the selected pod.
    Egress,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Self; 2] = [Self::Ingress, Self::Egress];

    /// The value in `policyTypes`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingress => "Ingress",
            Self::Egress => "Egress",
        }
    }
}

/// A protocol with ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP, the default.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// The name of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }

    /// Parses the name of a protocol; empty means TCP. `None` if it is unknown.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "" | "TCP" => Some(Self::Tcp),
            "UDP" => Some(Self::Udp),
            "SCTP" => Some(Self::Sctp),
            _ => None,
        }
    }
}

/// A policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The namespace, to which the selected pods belong.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The specification.
    pub spec: NetworkPolicySpec,
}

/// A named port of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamedPort {
    /// The name.
    pub name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The number.
    pub number: u16,
}

/// A pod with the fields that policies depend on. Pods on the host network are not of this type: policies neither
/// select them nor match them as peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The labels.
    pub labels: Labels,
    /// The addresses, one per family.
    pub addresses: Vec<IpAddr>,
    /// The named ports of its containers.
    pub ports: Vec<NamedPort>,
}

/// Ports of one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    /// The protocol.
    pub protocol: Protocol,
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

impl PortRange {
    /// Whether the range contains a port.
    pub fn contains(&self, protocol: Protocol, port: u16) -> bool {
        self.protocol == protocol && (self.first..=self.last).contains(&port)
    }

    /// Whether the range contains all ports of the protocol.
    pub fn is_all(&self) -> bool {
        self.first == 0 && self.last == u16::MAX
    }
}

/// A port of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulePort {
    /// Ports by number.
    Range(PortRange),
    /// A named port of the destination pod.
    Named(Protocol, String),
}

/// A rule of a policy, for either direction.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    /// The peers; empty if the rule allows all peers.
    pub peers: &'a [NetworkPolicyPeer],
    ports: &'a [NetworkPolicyPort],
}

impl Rule<'_> {
    /// The ports of the rule. `None` if it allows all ports of all protocols. A port that no kubelet can understand is
    /// omitted, so it allows nothing.
    pub fn ports(&self) -> Option<Vec<RulePort>> {
        (!self.ports.is_empty()).then(|| self.ports.iter().filter_map(rule_port).collect())
    }
}

fn rule_port(port: &NetworkPolicyPort) -> Option<RulePort> {
    let protocol = Protocol::parse(port.protocol.as_deref().unwrap_or_default())?;
    let range = |first, last| Some(RulePort::Range(PortRange { protocol, first, last }));
    match &port.port {
        None => range(0, u16::MAX),
        Some(IntOrString::String(name)) => Some(RulePort::Named(protocol, name.clone())),
        Some(IntOrString::Int(first)) => {
            let last = u16::try_from(port.end_port.unwrap_or(*first)).ok()?;
            range(u16::try_from(*first).ok()?, last)
        }
    }
}

impl Policy {
    /// Whether the policy applies to a direction. Without `policyTypes`, it applies to ingress, and to egress if it
    /// has egress rules.
    pub fn applies_to(&self, direction: Direction) -> bool {
        match self.spec.policy_types.as_ref().filter(|types| !types.is_empty()) {
            Some(types) => types.iter().any(|one| one == direction.as_str()),
            None => {
                direction == Direction::Ingress
                    || self.spec.egress.as_ref().is_some_and(|rules| !rules.is_empty())
            }
        }
    }

    /// Whether the policy selects a pod. It then isolates the pod in the directions to which it applies.
    pub fn selects(&self, pod: &Pod) -> bool {
        self.namespace == pod.namespace
            && self.spec.pod_selector.as_ref().is_none_or(|selector| matches(selector, &pod.labels))
    }

    /// The rules for a direction. Without any, nothing is allowed.
    pub fn rules(&self, direction: Direction) -> Vec<Rule<'_>> {
        match direction {
            Direction::Ingress => {
                let rules = self.spec.ingress.iter().flatten();
                rules.map(|rule| Rule { peers: slice(&rule.from), ports: slice(&rule.ports) }).collect()
            }
            Direction::Egress => {
                let rules = self.spec.egress.iter().flatten();
                rules.map(|rule| Rule { peers: slice(&rule.to), ports: slice(&rule.ports) }).collect()
            }
        }
    }

    /// Whether a peer of this policy matches a pod by its selectors. A peer with `ipBlock` matches no pod. A selector of
    /// namespaces matches no namespace whose labels are unknown, unless it is empty.
    pub fn peer_matches(&self, peer: &NetworkPolicyPeer, pod: &Pod, namespaces: &NamespaceLabels) -> bool {
        if peer.ip_block.is_some() || (peer.pod_selector.is_none() && peer.namespace_selector.is_none()) {
            return false;
        }
        let is_in_namespace = match &peer.namespace_selector {
            None => self.namespace == pod.namespace,
            Some(selector) if is_empty(selector) => true,
            Some(selector) => namespaces.get(&pod.namespace).is_some_and(|labels| matches(selector, labels)),
        };
        is_in_namespace && peer.pod_selector.as_ref().is_none_or(|selector| matches(selector, &pod.labels))
    }

    /// Whether a rule of the policy depends on pods other than the selected ones.
    pub fn has_pod_peers(&self) -> bool {
        let mut rules = Direction::BOTH
            .into_iter()
            .flat_map(|direction| self.rules(direction).into_iter().map(move |rule| (direction, rule)));
        rules.any(|(direction, rule)| {
            let has_name =
                || rule.ports().into_iter().flatten().any(|port| matches!(port, RulePort::Named(..)));
            rule.peers.iter().any(|peer| peer.ip_block.is_none())
                || (direction == Direction::Egress && has_name())
        })
    }
}

/// The addresses of a peer with `ipBlock`; empty for other peers, and if a CIDR cannot be parsed.
pub fn block_of(peer: &NetworkPolicyPeer) -> Vec<AddressRange> {
    let Some(block) = &peer.ip_block else { return Vec::new() };
    let Some(range) = AddressRange::parse(&block.cidr) else { return Vec::new() };
    let mut ranges = vec![range];
    for except in block.except.iter().flatten() {
        // When in doubt, nothing is allowed.
        let Some(except) = AddressRange::parse(except) else { return Vec::new() };
        ranges = ranges.into_iter().flat_map(|range| range.without(&except)).collect();
    }
    ranges
}

fn slice<T>(list: &Option<Vec<T>>) -> &[T] {
    list.as_deref().unwrap_or_default()
}

fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.iter().flatten().next().is_none()
        && selector.match_expressions.iter().flatten().next().is_none()
}

/// Whether a selector matches labels. An empty selector matches everything, an unknown operator nothing.
pub fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    let has_all = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    has_all
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let value = labels.get(&requirement.key);
            let is_listed =
                || value.is_some_and(|value| requirement.values.iter().flatten().any(|one| one == value));
            match requirement.operator.as_str() {
                "In" => is_listed(),
                "NotIn" => !is_listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}
