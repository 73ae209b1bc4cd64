//! Computes the packet rules of Services from the Services, their EndpointSlices and the node. Pure.
//!
//! Services that have no address of their own (headless, ExternalName), or that a label reserves for another proxy,
//! get no rules.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;

use crate::cluster::services::{
    Endpoint, EndpointSlice, Service, ServiceName, ServicePort, ServiceSnapshot, ServiceType, TrafficPolicy,
};
use crate::network::nft::services::{Group, GroupId, ServiceAddress, ServiceRules, Side, Target};
use crate::network::nft::{Family, Protocol as Transport};

/// What the rules depend on besides the Services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The node's name.
    pub name: String,
    /// The zone of the node; empty if it has none.
    pub zone: String,
    /// The pod CIDRs of the node.
    pub cidrs: Vec<IpNet>,
}

/// The plan for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The packet rules.
    pub rules: ServiceRules,
    /// The ports that report whether a Service has endpoints on this node, with the number of them.
    pub health_checks: BTreeMap<u16, (Arc<ServiceName>, usize)>,
}

/// Computes the plan. Cluster IPs come first, then node ports, addresses of load balancers and external IPs: an
/// external IP, which any user may set, does not take an address that the cluster assigned to another Service. If two
/// Services claim the same address and port in the same way, the first one by namespace and name has it.
pub fn plan(snapshot: &ServiceSnapshot, node: &NodeFacts) -> Plan {
    let mut plan = Plan::default();
    let mut served = Vec::new();
    for (name, service) in snapshot.services.iter().filter(|(_, service)| is_served(service)) {
        let slices = snapshot.slices_of(name);
        plan.rules.cluster_ips.extend(&service.cluster_ips);
        let mut planner = Planner { plan: &mut plan, node, name, service, slices };
        let ports = planner.choose_all();
        planner.add_health_check();
        served.push((name, service, ports));
    }
    for kind in AddressKind::ALL {
        for (name, service, ports) in &served {
            let mut planner = Planner { plan: &mut plan, node, name, service, slices: &[] };
            for of_port in ports {
                planner.add(kind, of_port);
            }
        }
    }
    let groups = plan.rules.groups.values().flat_map(|group| &group.endpoints).map(SocketAddr::ip);
    let is_own = |ip: &IpAddr| node.cidrs.iter().any(|cidr| cidr.contains(ip));
    plan.rules.own_endpoints = groups.filter(is_own).collect();
    plan
}

fn is_served(service: &Service) -> bool {
    let has_address = !service.is_headless && !service.cluster_ips.is_empty();
    has_address && !service.has_other_proxy && service.service_type != ServiceType::ExternalName
}

/// Adds one Service to the plan.
struct Planner<'p, 'a> {
    plan: &'p mut Plan,
    node: &'a NodeFacts,
    name: &'a Arc<ServiceName>,
    service: &'a Service,
    slices: &'a [Arc<EndpointSlice>],
}

/// A kind of addresses of Services, in the order in which they are assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressKind {
    ClusterIp,
    NodePort,
    LoadBalancer,
    External,
}

impl AddressKind {
    const ALL: [Self; 4] = [Self::ClusterIp, Self::NodePort, Self::LoadBalancer, Self::External];
}

/// The endpoints of one port in one family.
struct Chosen<'a> {
    port: &'a ServicePort,
    family: Family,
    /// Those for clients anywhere.
    cluster: Target,
    /// Those for clients that must stay on this node.
    local: Target,
    /// All that serve, also those that get no new connections.
    serving: BTreeSet<SocketAddr>,
}

impl<'a> Planner<'_, 'a> {
    /// Chooses the endpoints of all ports, in each family of the Service.
    fn choose_all(&mut self) -> Vec<Chosen<'a>> {
        let service = self.service;
        let has_family = |family: &Family| service.cluster_ips.iter().any(|ip| Family::of(*ip) == *family);
        let families = Family::BOTH.into_iter().filter(has_family);
        families
            .flat_map(|family| service.ports.iter().map(move |port| (port, family)))
            .map(|(port, family)| self.choose(port, family))
            .collect()
    }

    /// Adds the addresses of one kind.
    fn add(&mut self, kind: AddressKind, chosen: &Chosen<'_>) {
        let (service, family) = (self.service, chosen.family);
        let is_balanced = service.service_type == ServiceType::LoadBalancer;
        let none = Vec::new();
        let ips = match kind {
            AddressKind::ClusterIp => &service.cluster_ips,
            AddressKind::NodePort => {
                let has_node_ports = is_balanced || service.service_type == ServiceType::NodePort;
                if has_node_ports && chosen.port.node_port != 0 {
                    let everywhere = match family {
                        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
                        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
                    };
                    self.add_external(everywhere, chosen.port.node_port, chosen);
                }
                return;
            }
            AddressKind::LoadBalancer if is_balanced => &service.load_balancer_ips,
            AddressKind::LoadBalancer => &none,
            AddressKind::External => &service.external_ips,
        };
        for ip in ips.iter().copied().filter(|ip| Family::of(*ip) == family) {
            match kind {
                AddressKind::ClusterIp => self.add_cluster_ip(ip, chosen),
                AddressKind::LoadBalancer => self.add_load_balancer(ip, chosen),
                _ => {
                    self.add_external(ip, chosen.port.port, chosen);
                }
            }
        }
    }

    fn add_cluster_ip(&mut self, ip: IpAddr, chosen: &Chosen<'_>) {
        let target = match self.service.internal_traffic_policy {
            TrafficPolicy::Cluster => chosen.cluster,
            TrafficPolicy::Local => chosen.local,
        };
        self.put(ip, chosen.port.port, chosen, [target, target], true);
    }

    /// Adds an address of a load balancer. `loadBalancerSourceRanges` applies to these addresses only, and a family
    /// without a range is not restricted, as in a stock kube-proxy.
    fn add_load_balancer(&mut self, ip: IpAddr, chosen: &Chosen<'_>) {
        let at = self.add_external(ip, chosen.port.port, chosen);
        let ranges = self.service.source_ranges.iter().filter_map(|text| text.trim().parse::<IpNet>().ok());
        let ranges: Vec<IpNet> = ranges
            .filter(|range| Family::of(range.addr()) == chosen.family)
            .map(|range| range.trunc())
            .collect();
        if let Some(at) = at.filter(|_| !ranges.is_empty()) {
            self.plan.rules.sources.insert(at, ranges);
        }
    }

    /// Adds a node port, an external IP or an address of a load balancer. Returns `None` if it is in use. This node and
    /// its pods need not come from outside, so they reach all endpoints whatever the policy.
    fn add_external(&mut self, ip: IpAddr, number: u16, chosen: &Chosen<'_>) -> Option<ServiceAddress> {
        match self.service.external_traffic_policy {
            TrafficPolicy::Cluster => self.put(ip, number, chosen, [chosen.cluster; 2], true),
            TrafficPolicy::Local => self.put(ip, number, chosen, [chosen.cluster, chosen.local], false),
        }
    }

    /// Sets the targets of an address for clients inside and outside, and returns it, unless it is in use.
    fn put(
        &mut self,
        ip: IpAddr,
        number: u16,
        of: &Chosen<'_>,
        targets: [Target; 2],
        is_masqueraded: bool,
    ) -> Option<ServiceAddress> {
        let at = ServiceAddress { ip, protocol: of.port.protocol.into(), port: number };
        let rules = &mut self.plan.rules;
        if rules.targets.contains_key(&(Side::Inside, at)) {
            return None;
        }
        rules.targets.extend(Side::BOTH.into_iter().zip(targets).map(|(side, target)| ((side, at), target)));
        if is_masqueraded {
            rules.masqueraded.insert(at);
        }
        if at.protocol == Transport::Udp {
            rules.serving_udp.insert(SocketAddr::new(ip, number), of.serving.clone());
        }
        Some(at)
    }

    /// Chooses the endpoints of a port, and adds their groups.
    fn choose(&mut self, port: &'a ServicePort, family: Family) -> Chosen<'a> {
        let all = self.endpoints(port, family);
        let hints = hints(&all, self.node);
        let ready =
            |(_, endpoint): &&(SocketAddr, &Endpoint)| endpoint.is_ready && hints.admits(endpoint, self.node);
        let mut cluster: Vec<_> = all.iter().filter(ready).collect();
        if cluster.is_empty() {
            cluster = all.iter().filter(|(_, endpoint)| is_draining(endpoint)).collect();
        }
        let is_local = |(_, endpoint): &&(SocketAddr, &Endpoint)| *endpoint.node_name == *self.node.name;
        let mut local: Vec<_> =
            all.iter().filter(is_local).filter(|(_, endpoint)| endpoint.is_ready).collect();
        if local.is_empty() {
            local = all.iter().filter(is_local).filter(|(_, endpoint)| is_draining(endpoint)).collect();
        }
        let addresses = |chosen: Vec<&(SocketAddr, &Endpoint)>| -> BTreeSet<SocketAddr> {
            chosen.into_iter().map(|(address, _)| *address).collect()
        };
        let serves = |(_, endpoint): &&(SocketAddr, &Endpoint)| endpoint.is_serving || endpoint.is_ready;
        let serving = addresses(all.iter().filter(serves).collect());
        let (cluster, local) = (addresses(cluster), addresses(local));
        let without_local = if cluster.is_empty() { Target::Reject } else { Target::Drop };
        let uses_local = self.service.internal_traffic_policy == TrafficPolicy::Local
            || self.service.external_traffic_policy == TrafficPolicy::Local;
        Chosen {
            port,
            family,
            serving,
            cluster: self.add_group(port, family, "", cluster).unwrap_or(Target::Reject),
            local: match uses_local {
                true => self.add_group(port, family, " local", local).unwrap_or(without_local),
                false => without_local,
            },
        }
    }

    /// The endpoints of a port, with their addresses.
    fn endpoints(&self, port: &ServicePort, family: Family) -> Vec<(SocketAddr, &'a Endpoint)> {
        let mut all = Vec::new();
        for slice in self.slices.iter().filter(|slice| !slice.has_other_proxy) {
            let named =
                slice.ports.iter().filter(|one| one.name == port.name && one.protocol == port.protocol);
            for to in named.filter(|one| one.port != 0) {
                let of_family = slice.endpoints.iter().filter_map(|endpoint| {
                    let ip = endpoint.addresses.first().filter(|ip| Family::of(**ip) == family)?;
                    Some((SocketAddr::new(*ip, to.port), endpoint))
                });
                all.extend(of_family);
            }
        }
        all
    }

    fn add_group(
        &mut self,
        port: &ServicePort,
        family: Family,
        which: &str,
        endpoints: BTreeSet<SocketAddr>,
    ) -> Option<Target> {
        if endpoints.is_empty() {
            return None;
        }
        let (name, protocol) = (self.name, port.protocol);
        let id = GroupId::of(&format!("{name} {} {protocol:?} {family:?}{which}", port.name));
        let affinity_seconds = self.service.affinity_seconds;
        let group = Group { affinity_seconds, endpoints: endpoints.into_iter().collect() };
        self.plan.rules.groups.insert(id, group);
        Some(Target::Group(id))
    }

    fn add_health_check(&mut self) {
        let port = self.service.health_check_node_port;
        let is_local = self.service.external_traffic_policy == TrafficPolicy::Local;
        if port == 0 || !is_local || self.service.service_type != ServiceType::LoadBalancer {
            return;
        }
        let slices = self.slices.iter().filter(|slice| !slice.has_other_proxy);
        let endpoints = slices.flat_map(|slice| &slice.endpoints);
        let own = endpoints.filter(|one| one.is_ready && *one.node_name == *self.node.name);
        let own: BTreeSet<&IpAddr> = own.filter_map(|one| one.addresses.first()).collect();
        self.plan.health_checks.insert(port, (self.name.clone(), own.len()));
    }
}

/// Whether an endpoint still serves while it terminates. Such endpoints count if no other is left.
fn is_draining(endpoint: &Endpoint) -> bool {
    endpoint.is_serving && endpoint.is_terminating
}

/// How hints of EndpointSlices restrict the endpoints for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hints {
    /// They do not.
    Ignored,
    /// To endpoints for the zone of the node.
    Zone,
    /// To endpoints for the node itself.
    Node,
}

impl Hints {
    fn admits(self, endpoint: &Endpoint, node: &NodeFacts) -> bool {
        match self {
            Self::Ignored => true,
            Self::Zone => endpoint.zone_hints.iter().any(|zone| **zone == *node.zone),
            Self::Node => endpoint.node_hints.iter().any(|name| **name == *node.name),
        }
    }
}

/// Which hints apply. They apply only if every ready endpoint has some, and at least one is for this node.
fn hints(all: &[(SocketAddr, &Endpoint)], node: &NodeFacts) -> Hints {
    let ready = || all.iter().map(|(_, endpoint)| *endpoint).filter(|endpoint| endpoint.is_ready);
    let apply = |hints: Hints| ready().any(|endpoint| hints.admits(endpoint, node));
    if ready().all(|endpoint| !endpoint.node_hints.is_empty()) && apply(Hints::Node) {
        return Hints::Node;
    }
    let has_zones = !node.zone.is_empty() && ready().all(|endpoint| !endpoint.zone_hints.is_empty());
    if has_zones && apply(Hints::Zone) { Hints::Zone } else { Hints::Ignored }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
