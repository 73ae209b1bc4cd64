//! Computes the packet rules of NetworkPolicies from the policies, their peers and the pods of this node. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::network_policy::{AddressRange, Direction, Pod, Policy, Protocol, Rule, RulePort, block_of};
use ipnet::IpNet;

use crate::cluster::policies::{Demand, PolicySnapshot};
use crate::network::nft::Protocol as Transport;
use crate::network::nft::policies::{
    self as nft, Allow, Chain, ChainRule, IsolatedPod, Peers, PolicyId, PolicyRules, Ports,
};

/// A pod of this node with an address of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Whether its labels are known. Otherwise all policies of its namespace select it, and if the namespace is unknown
    /// too, all policies.
    pub has_known_labels: bool,
    /// The name of its bridge port.
    pub port: String,
    /// The hardware address of the pod's end.
    pub mac: [u8; 6],
}

impl LocalPod {
    fn is_selected_by(&self, policy: &Policy) -> bool {
        match self.has_known_labels {
            true => policy.selects(&self.pod),
            false => self.pod.namespace.is_empty() || self.pod.namespace == policy.namespace,
        }
    }
}

/// Whether the peers of policies must be known: a policy that selects a pod of this node depends on other pods.
pub fn demand(snapshot: &PolicySnapshot, local: &[LocalPod]) -> Demand {
    let mut policies = snapshot.policies.values();
    let needs =
        policies.any(|policy| policy.has_pod_peers() && local.iter().any(|one| one.is_selected_by(policy)));
    if needs { Demand::Peers } else { Demand::Policies }
}

/// Computes the rules. The peers on this node come from the kubelet itself, which knows them first; `node` is its name.
pub fn plan(snapshot: &PolicySnapshot, node: &str, local: &[LocalPod]) -> PolicyRules {
    let others = snapshot.peers.values().filter(|peer| peer.node != node).map(|peer| &peer.pod);
    let peers: Vec<&Pod> = others.chain(local.iter().map(|one| &*one.pod)).collect();
    let mut planner = Planner { snapshot, peers, rules: PolicyRules::default(), ids: BTreeMap::new() };
    for one in local {
        let ingress = planner.chain(one, Direction::Ingress);
        let egress = planner.chain(one, Direction::Egress);
        if ingress.is_some() || egress.is_some() {
            planner.rules.pods.push(IsolatedPod {
                port: one.port.clone(),
                mac: one.mac,
                addresses: one.pod.addresses.clone(),
                ingress,
                egress,
            });
        }
    }
    planner.rules
}

struct Planner<'a> {
    snapshot: &'a PolicySnapshot,
    /// All pods that may be peers.
    peers: Vec<&'a Pod>,
    rules: PolicyRules,
    /// The ID of each chain. Pods with equal chains share one.
    ids: BTreeMap<Chain, PolicyId>,
}

impl<'a> Planner<'a> {
    /// The chain of a pod in one direction. `None` if no policy isolates the pod.
    fn chain(&mut self, pod: &LocalPod, direction: Direction) -> Option<PolicyId> {
        let snapshot = self.snapshot;
        let isolates = |policy: &&Arc<Policy>| policy.applies_to(direction) && pod.is_selected_by(policy);
        let isolating: Vec<&Arc<Policy>> = snapshot.policies.values().filter(isolates).collect();
        if isolating.is_empty() {
            return None;
        }
        let mut rules = Vec::new();
        for policy in isolating {
            for (number, rule) in policy.rules(direction).into_iter().enumerate() {
                let name = format!("{}/{} {} {number}", policy.namespace, policy.name, direction.as_str());
                for allow in self.allows(policy, &name, rule, &pod.pod, direction) {
                    let rule = ChainRule { policy: name.clone(), allow };
                    if !rules.contains(&rule) {
                        rules.push(rule);
                    }
                }
            }
        }
        let side = match direction {
            Direction::Ingress => nft::Direction::Ingress,
            Direction::Egress => nft::Direction::Egress,
        };
        let chain = Chain { direction: side, rules };
        let id =
            *self.ids.entry(chain.clone()).or_insert_with_key(|chain| PolicyId::of(&format!("{chain:?}")));
        self.rules.chains.entry(id).or_insert(chain);
        Some(id)
    }

    /// What a rule allows for a pod.
    fn allows(
        &mut self,
        policy: &Policy,
        name: &str,
        rule: Rule<'_>,
        pod: &Pod,
        direction: Direction,
    ) -> Vec<Allow> {
        let peers = (!rule.peers.is_empty()).then(|| self.add_peers(policy, name, rule));
        let Some(ports) = rule.ports() else { return vec![Allow::Peers { peers, ports: None }] };
        let mut all = Vec::new();
        for port in ports {
            match (port, direction) {
                (RulePort::Range(range), _) => {
                    let protocol = range.protocol.into();
                    let ports = Ports { protocol, first: range.first, last: range.last };
                    all.push(Allow::Peers { peers, ports: Some(ports) });
                }
                (RulePort::Named(protocol, name), Direction::Ingress) => {
                    let numbers: BTreeSet<u16> = numbers_of(pod, protocol, &name).collect();
                    all.extend(numbers.into_iter().map(|number| {
                        let ports = Ports { protocol: protocol.into(), first: number, last: number };
                        Allow::Peers { peers, ports: Some(ports) }
                    }));
                }
                (RulePort::Named(protocol, port), Direction::Egress) => {
                    let id = self.add_destinations(policy, name, rule, (protocol, &port));
                    all.push(Allow::Destinations(id));
                }
            }
        }
        all
    }

    /// Adds the peers of a rule.
    fn add_peers(&mut self, policy: &Policy, name: &str, rule: Rule<'_>) -> PolicyId {
        let id = PolicyId::of(name);
        if !self.rules.peers.contains_key(&id) {
            let selected = self.peers.iter().filter(|pod| self.selects_peer(policy, rule, pod));
            let pods = selected.flat_map(|pod| pod.addresses.iter().copied()).collect();
            let blocks: Vec<IpNet> =
                rule.peers.iter().flat_map(block_of).flat_map(|range| range.cidrs()).collect();
            self.rules.peers.insert(id, Peers { pods, blocks });
        }
        id
    }

    /// Adds a named port of the pods to which an egress rule leads.
    fn add_destinations(
        &mut self,
        policy: &Policy,
        name: &str,
        rule: Rule<'_>,
        (protocol, port): (Protocol, &str),
    ) -> PolicyId {
        let id = PolicyId::of(&format!("{name} {protocol:?} {port}"));
        if !self.rules.destinations.contains_key(&id) {
            let blocks: Vec<AddressRange> = rule.peers.iter().flat_map(block_of).collect();
            let is_in_block = |ip: &IpAddr| blocks.iter().any(|range| range.contains(*ip));
            let of_pod = |pod: &&Pod| -> Vec<(IpAddr, Transport, u16)> {
                let numbers: BTreeSet<u16> = numbers_of(pod, protocol, port).collect();
                if numbers.is_empty() {
                    return Vec::new();
                }
                let is_selected = rule.peers.is_empty() || self.selects_peer(policy, rule, pod);
                let addresses = pod.addresses.iter().filter(|ip| is_selected || is_in_block(ip));
                let each =
                    |ip: &IpAddr| numbers.iter().map(|number| (*ip, protocol.into(), *number)).collect();
                addresses.flat_map::<Vec<_>, _>(each).collect()
            };
            let all = self.peers.iter().flat_map(of_pod).collect();
            self.rules.destinations.insert(id, all);
        }
        id
    }

    /// Whether a peer of a rule matches a pod by selectors.
    fn selects_peer(&self, policy: &Policy, rule: Rule<'_>, pod: &Pod) -> bool {
        rule.peers.iter().any(|peer| policy.peer_matches(peer, pod, &self.snapshot.namespaces))
    }
}

/// The numbers of a pod's port with this name.
fn numbers_of<'p>(pod: &'p Pod, protocol: Protocol, name: &'p str) -> impl Iterator<Item = u16> + 'p {
    let named = pod.ports.iter().filter(move |port| port.name == name && port.protocol == protocol);
    named.map(|port| port.number)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests;
