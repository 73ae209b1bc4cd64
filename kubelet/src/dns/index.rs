//! The index of Services by name and by address, as the cluster's zone needs it. Pure.
//!
//! The index changes per Service: an update copies the records of the changed Services only, and a query copies
//! nothing but its answer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::cluster::services::{EndpointSlice, Protocol, Service, ServiceName, ServiceSnapshot, ServiceType};

/// A port. One without a name has SRV records at the name of the Service only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Port {
    /// The name, in lower case; empty if it has none.
    pub name: Box<str>,
    pub protocol: Protocol,
    pub number: u16,
}

impl Port {
    fn new(name: &str, protocol: Protocol, number: u16) -> Option<Self> {
        let name = name.to_ascii_lowercase().into_boxed_str();
        (number != 0).then_some(Self { name, protocol, number })
    }
}

/// A name that an address leads to: a Service, or an endpoint of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReverseName {
    pub service: Arc<ServiceName>,
    /// The hostname of the endpoint; `None` for a cluster IP.
    pub host: Option<Arc<str>>,
}

/// The records of one Service.
#[derive(Debug)]
pub(super) enum Entry {
    /// A Service with cluster IPs, or one that has none yet.
    ClusterIp {
        addresses: Vec<IpAddr>,
        ports: Vec<Port>,
        /// Ready endpoints with a hostname of their own. The specification does not demand them, but CoreDNS answers for
        /// them too. Those without one are found by [`Index::has_unnamed_endpoint`], which saves memory.
        hosts: HashMap<Arc<str>, Vec<IpAddr>>,
    },
    /// A Service without cluster IP.
    Headless {
        /// The addresses of all ready endpoints.
        addresses: Vec<IpAddr>,
        /// The addresses of ready endpoints by hostname. The hostname of an endpoint without one follows from its address.
        hosts: HashMap<Arc<str>, Vec<IpAddr>>,
        /// For each port, the hostnames of the endpoints that have it.
        ports: HashMap<Port, Vec<Arc<str>>>,
    },
    /// An alias for this name.
    ExternalName(Box<str>),
}

impl Entry {
    fn new(service: &Service, slices: &[Arc<EndpointSlice>]) -> Self {
        if service.service_type == ServiceType::ExternalName {
            return Self::ExternalName(service.external_name.clone());
        }
        if service.is_headless {
            return Self::headless(slices);
        }
        let ports = service.ports.iter();
        let ports = ports.filter_map(|port| Port::new(&port.name, port.protocol, port.port)).collect();
        let mut hosts = HashMap::<_, Vec<_>>::new();
        for (host, address) in slices.iter().flat_map(|slice| ready(slice)) {
            if let Some(host) = host {
                add(hosts.entry(host).or_default(), address);
            }
        }
        Self::ClusterIp { addresses: service.cluster_ips.clone(), ports, hosts }
    }

    fn headless(slices: &[Arc<EndpointSlice>]) -> Self {
        let mut hosts = HashMap::<Arc<str>, Vec<IpAddr>>::new();
        let mut ports = HashMap::<Port, Vec<Arc<str>>>::new();
        let mut addresses = Vec::new();
        for slice in slices {
            let of_slice = slice.ports.iter();
            let of_slice: Vec<Port> =
                of_slice.filter_map(|port| Port::new(&port.name, port.protocol, port.port)).collect();
            for (host, address) in ready(slice) {
                let host = host.unwrap_or_else(|| generated_hostname(address));
                for port in &of_slice {
                    ports.entry(port.clone()).or_default().push(host.clone());
                }
                add(hosts.entry(host).or_default(), address);
                addresses.push(address);
            }
        }
        // An endpoint may be in several EndpointSlices, one for each set of ports.
        addresses.sort_unstable();
        addresses.dedup();
        for names in ports.values_mut() {
            names.sort_unstable();
            names.dedup();
        }
        Self::Headless { addresses, hosts, ports }
    }

    /// The addresses that lead to this Service, with their names.
    fn reverse(&self, service: &Arc<ServiceName>) -> Vec<(IpAddr, ReverseName)> {
        let name = |host| ReverseName { service: service.clone(), host };
        match self {
            Self::ClusterIp { addresses, .. } => addresses.iter().map(|ip| (*ip, name(None))).collect(),
            Self::Headless { hosts, .. } => hosts
                .iter()
                .flat_map(|(host, addresses)| addresses.iter().map(|ip| (*ip, name(Some(host.clone())))))
                .collect(),
            Self::ExternalName(_) => Vec::new(),
        }
    }
}

fn add(addresses: &mut Vec<IpAddr>, address: IpAddr) {
    if !addresses.contains(&address) {
        addresses.push(address);
    }
}

/// The addresses of ready endpoints, with the hostname in lower case if there is one.
fn ready(slice: &EndpointSlice) -> impl Iterator<Item = (Option<Arc<str>>, IpAddr)> {
    slice.endpoints.iter().filter(|endpoint| endpoint.is_ready).flat_map(|endpoint| {
        let host = Some(&endpoint.hostname).filter(|name| !name.is_empty());
        let host: Option<Arc<str>> = host.map(|name| name.to_ascii_lowercase().into());
        endpoint.addresses.iter().map(move |address| (host.clone(), *address))
    })
}

/// The hostname of an endpoint without one: its address with dashes, as CoreDNS builds it.
pub(super) fn generated_hostname(address: IpAddr) -> Arc<str> {
    address.to_string().replace(['.', ':'], "-").into()
}

/// All Services of the cluster, by name and by address.
#[derive(Debug, Default)]
pub struct Index {
    /// The snapshot that the index shows.
    snapshot: Arc<ServiceSnapshot>,
    namespaces: HashMap<Box<str>, HashMap<Box<str>, Entry>>,
    reverse: HashMap<IpAddr, Vec<ReverseName>>,
    serial: u32,
}

impl Index {
    /// Applies a snapshot. Only Services that differ from the previous one are indexed again. An object that did not
    /// change has the same address in memory in both snapshots.
    pub fn apply(&mut self, snapshot: Arc<ServiceSnapshot>) {
        let before = std::mem::replace(&mut self.snapshot, snapshot.clone());
        for name in before.services.keys().filter(|name| !snapshot.services.contains_key(*name)) {
            self.remove(name);
        }
        for (name, service) in &snapshot.services {
            let is_same = before.services.get(name).is_some_and(|known| Arc::ptr_eq(known, service))
                && before.endpoint_slices.get(name).map(Arc::as_ptr)
                    == snapshot.endpoint_slices.get(name).map(Arc::as_ptr);
            if !is_same {
                self.insert(name, Entry::new(service, snapshot.slices_of(name)));
            }
        }
        self.serial = self.serial.wrapping_add(1);
    }

    fn insert(&mut self, name: &Arc<ServiceName>, entry: Entry) {
        self.remove(name);
        for (ip, target) in entry.reverse(name) {
            self.reverse.entry(ip).or_default().push(target);
        }
        self.namespaces.entry(name.namespace.clone()).or_default().insert(name.name.clone(), entry);
    }

    /// Removes a Service, and its namespace with the last one.
    fn remove(&mut self, name: &Arc<ServiceName>) {
        let Some(services) = self.namespaces.get_mut(&name.namespace) else { return };
        let Some(entry) = services.remove(&name.name) else { return };
        if services.is_empty() {
            self.namespaces.remove(&name.namespace);
        }
        for (ip, target) in entry.reverse(name) {
            let Some(names) = self.reverse.get_mut(&ip) else { continue };
            names.retain(|other| *other != target);
            if names.is_empty() {
                self.reverse.remove(&ip);
            }
        }
    }

    /// Whether the Services of the cluster are known. Until then, names of Services are unknown, not missing.
    pub fn is_known(&self) -> bool {
        self.snapshot.is_known
    }

    /// The serial number of the zone: the number of applied snapshots.
    pub(super) fn serial(&self) -> u32 {
        self.serial
    }

    /// The Services of a namespace; `None` if it has none.
    pub(super) fn namespace(&self, namespace: &str) -> Option<&HashMap<Box<str>, Entry>> {
        self.namespaces.get(namespace)
    }

    /// Whether a Service has a ready endpoint with this address and without a hostname.
    pub(super) fn has_unnamed_endpoint(&self, namespace: &str, service: &str, address: IpAddr) -> bool {
        let slices = self.snapshot.slices_of(&ServiceName::new(namespace, service));
        slices.iter().flat_map(|slice| ready(slice)).any(|(host, ip)| host.is_none() && ip == address)
    }

    /// The names that an address leads to; empty if it is of no Service.
    pub(super) fn names_of(&self, address: IpAddr) -> &[ReverseName] {
        self.reverse.get(&address).map_or(&[], Vec::as_slice)
    }
}
