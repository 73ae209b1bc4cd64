//! Services and EndpointSlices with the fields that the service proxy and the DNS server read. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use client::Versioned;
use serde::{Deserialize, Serialize};

pub use api::network_policy::Protocol;

/// The value of `clusterIP` of a headless Service.
const HEADLESS: &str = "None";
/// The label of an EndpointSlice that names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Labels of Services and EndpointSlices that a stock kube-proxy ignores, whatever their value.
const NOT_FOR_PROXY: [&str; 2] =
    ["service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"];
/// The timeout of session affinity without `sessionAffinityConfig`, in seconds.
const AFFINITY_SECONDS: u32 = 10_800;

/// The namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamespacedName {
    /// The namespace.
    pub namespace: Box<str>,
    /// The name in the namespace.
    pub name: Box<str>,
}

impl NamespacedName {
    /// Creates the name of an object.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The namespace and name of a Service.
pub type ServiceName = NamespacedName;

/// The type of a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceType {
    /// An address inside the cluster, the default.
    #[default]
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    /// Also a port of every node.
    NodePort,
    /// Also addresses of a load balancer.
    LoadBalancer,
    /// Only a DNS alias.
    ExternalName,
}

/// Which endpoints may receive traffic that enters at a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrafficPolicy {
    /// All endpoints, the default.
    #[default]
    Cluster,
    /// The endpoints on that node.
    Local,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    /// The name; empty if the Service has a single port without a name.
    pub name: Box<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The port at the addresses of the Service.
    pub port: u16,
    /// The port of every node; 0 if there is none.
    pub node_port: u16,
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// The type.
    pub service_type: ServiceType,
    /// Whether `clusterIP` is `None`: the Service has no address of its own.
    pub is_headless: bool,
    /// The cluster IPs, one per family, the primary one first; empty for headless Services and ExternalName.
    pub cluster_ips: Vec<IpAddr>,
    /// The external IPs.
    pub external_ips: Vec<IpAddr>,
    /// Addresses of the load balancer whose `ipMode` is not `Proxy`.
    pub load_balancer_ips: Vec<IpAddr>,
    /// The only sources that reach the addresses of the load balancer, in CIDR notation; empty if all do.
    pub source_ranges: Vec<Box<str>>,
    /// The target of a Service of type ExternalName; otherwise empty.
    pub external_name: Box<str>,
    /// The families of the cluster IPs and endpoints, `IPv4` or `IPv6`, the primary one first.
    pub ip_families: Vec<Box<str>>,
    /// The ports.
    pub ports: Vec<ServicePort>,
    /// How long a client stays with an endpoint, in seconds. `None` without session affinity.
    pub affinity_seconds: Option<u32>,
    /// The policy for traffic to cluster IPs.
    pub internal_traffic_policy: TrafficPolicy,
    /// The policy for traffic to node ports, external IPs and addresses of load balancers.
    pub external_traffic_policy: TrafficPolicy,
    /// The port of every node that reports whether it has endpoints; 0 if there is none.
    pub health_check_node_port: u16,
    /// Whether endpoints count before they are ready. The EndpointSlices already show them as ready.
    pub publish_not_ready_addresses: bool,
    /// Whether a label reserves the Service for another proxy.
    pub has_other_proxy: bool,
}

/// A port of the endpoints of an EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointPort {
    /// The name of the port of the Service; may be empty.
    pub name: Box<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The port of the endpoints; 0 if it is not restricted.
    pub port: u16,
}

/// An endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Endpoint {
    /// The addresses. All of them lead to the same endpoint; the proxy uses the first one.
    pub addresses: Vec<IpAddr>,
    /// Whether the endpoint is ready and not terminating. An unknown state counts as ready.
    pub is_ready: bool,
    /// Whether the endpoint serves, even if it is terminating.
    pub is_serving: bool,
    /// Whether the endpoint is terminating.
    pub is_terminating: bool,
    /// The host name for DNS; empty if there is none.
    pub hostname: Box<str>,
    /// The node; empty if it is unknown.
    pub node_name: Arc<str>,
    /// The kind and name of the target object, such as `Pod` and `a`; empty if there is none.
    pub target: (Box<str>, Box<str>),
    /// The zones that should use the endpoint (`hints.forZones`).
    pub zone_hints: Vec<Box<str>>,
    /// The nodes that should use the endpoint (`hints.forNodes`).
    pub node_hints: Vec<Box<str>>,
}

/// An EndpointSlice of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointSlice {
    /// The name in the namespace of the Service.
    pub name: Box<str>,
    /// The Service.
    pub service: Arc<ServiceName>,
    /// The ports of all endpoints.
    pub ports: Vec<EndpointPort>,
    /// The endpoints.
    pub endpoints: Vec<Endpoint>,
    /// Whether a label reserves the EndpointSlice for another proxy.
    pub has_other_proxy: bool,
}

/// The metadata of both kinds.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub name: String,
    pub namespace: String,
    resource_version: String,
    labels: Option<BTreeMap<String, String>>,
}

impl Metadata {
    fn has_other_proxy(&self) -> bool {
        self.labels.as_ref().is_some_and(|labels| NOT_FOR_PROXY.iter().any(|name| labels.contains_key(*name)))
    }
}

/// A Service as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiService {
    pub metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(rename = "type")]
    service_type: ServiceType,
    #[serde(rename = "clusterIP")]
    cluster_ip: String,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Option<Vec<String>>,
    #[serde(rename = "externalIPs")]
    external_ips: Option<Vec<String>>,
    load_balancer_source_ranges: Option<Vec<Box<str>>>,
    external_name: String,
    ip_families: Option<Vec<Box<str>>>,
    ports: Option<Vec<ServicePort>>,
    session_affinity: String,
    session_affinity_config: Option<AffinityConfig>,
    internal_traffic_policy: TrafficPolicy,
    external_traffic_policy: TrafficPolicy,
    health_check_node_port: u16,
    publish_not_ready_addresses: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AffinityConfig {
    #[serde(rename = "clientIP")]
    client_ip: Option<ClientIp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClientIp {
    timeout_seconds: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    load_balancer: Option<LoadBalancer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    ingress: Option<Vec<Ingress>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Ingress {
    ip: Option<String>,
    ip_mode: Option<String>,
}

impl ApiService {
    /// The name and the fields that are kept. Addresses that cannot be parsed are ignored.
    pub fn into_service(self) -> (ServiceName, Service) {
        let Self { metadata, spec, status } = self;
        let name = ServiceName::new(&metadata.namespace, &metadata.name);
        let has_other_proxy = metadata.has_other_proxy();
        let cluster_ips = match spec.cluster_ips.filter(|ips| !ips.is_empty()) {
            Some(ips) => ips,
            None => vec![spec.cluster_ip],
        };
        let ingress = status.load_balancer.unwrap_or_default().ingress.unwrap_or_default();
        let for_nodes = ingress.into_iter().filter(|one| one.ip_mode.as_deref() != Some("Proxy"));
        let timeout = spec.session_affinity_config.and_then(|config| config.client_ip?.timeout_seconds);
        let affinity_seconds = Some(timeout.unwrap_or(AFFINITY_SECONDS));
        let service = Service {
            service_type: spec.service_type,
            is_headless: cluster_ips.iter().any(|ip| ip == HEADLESS),
            cluster_ips: parsed(&cluster_ips),
            external_ips: parsed(&spec.external_ips.unwrap_or_default()),
            load_balancer_ips: parsed(&for_nodes.filter_map(|one| one.ip).collect::<Vec<_>>()),
            source_ranges: spec.load_balancer_source_ranges.unwrap_or_default(),
            external_name: spec.external_name.into(),
            ip_families: spec.ip_families.unwrap_or_default(),
            ports: spec.ports.unwrap_or_default(),
            affinity_seconds: affinity_seconds.filter(|_| spec.session_affinity == "ClientIP"),
            internal_traffic_policy: spec.internal_traffic_policy,
            external_traffic_policy: spec.external_traffic_policy,
            health_check_node_port: spec.health_check_node_port,
            publish_not_ready_addresses: spec.publish_not_ready_addresses,
            has_other_proxy,
        };
        (name, service)
    }
}

/// An EndpointSlice as the API server sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiSlice {
    pub metadata: Metadata,
    ports: Option<Vec<ApiPort>>,
    endpoints: Option<Vec<ApiEndpoint>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ApiPort {
    name: Option<Box<str>>,
    protocol: Option<Protocol>,
    port: Option<u16>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ApiEndpoint {
    addresses: Option<Vec<String>>,
    conditions: Option<Conditions>,
    hostname: Option<Box<str>>,
    node_name: Option<Arc<str>>,
    target_ref: Option<TargetRef>,
    hints: Option<Hints>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TargetRef {
    kind: Box<str>,
    name: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Hints {
    for_zones: Option<Vec<Named>>,
    for_nodes: Option<Vec<Named>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: Box<str>,
}

impl ApiSlice {
    /// The fields that are kept. `None` if the EndpointSlice belongs to no Service.
    pub fn into_slice(self) -> Option<EndpointSlice> {
        let Self { metadata, ports, endpoints } = self;
        let service = metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_LABEL))?;
        let ports = ports.unwrap_or_default().into_iter().map(|port| EndpointPort {
            name: port.name.unwrap_or_default(),
            protocol: port.protocol.unwrap_or_default(),
            port: port.port.unwrap_or_default(),
        });
        Some(EndpointSlice {
            service: Arc::new(ServiceName::new(&metadata.namespace, service)),
            has_other_proxy: metadata.has_other_proxy(),
            ports: ports.collect(),
            endpoints: endpoints.unwrap_or_default().into_iter().map(endpoint).collect(),
            name: metadata.name.into(),
        })
    }
}

fn endpoint(one: ApiEndpoint) -> Endpoint {
    let Conditions { ready, serving, terminating } = one.conditions.unwrap_or_default();
    let is_ready = ready.unwrap_or(true);
    let hints = one.hints.unwrap_or_default();
    let names = |list: Option<Vec<Named>>| list.unwrap_or_default().into_iter().map(|one| one.name).collect();
    let target = one.target_ref.unwrap_or_default();
    Endpoint {
        addresses: parsed(&one.addresses.unwrap_or_default()),
        is_ready,
        is_serving: serving.unwrap_or(is_ready),
        is_terminating: terminating.unwrap_or(false),
        hostname: one.hostname.unwrap_or_default(),
        node_name: one.node_name.unwrap_or_default(),
        target: (target.kind, target.name),
        zone_hints: names(hints.for_zones),
        node_hints: names(hints.for_nodes),
    }
}

fn parsed(texts: &[String]) -> Vec<IpAddr> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

impl Versioned for ApiService {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

impl Versioned for ApiSlice {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}
