//! Services and EndpointSlices.

use serde::Deserialize;

use super::meta::ObjectMeta;
use super::values::{IntOrString, List, StringMap};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Service {
    pub metadata: ObjectMeta,
    /// The desired state, `spec`.
    pub spec: ServiceSpec,
}

/// `spec` of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Type of the Service: `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    pub r#type: Box<str>,
    /// Labels of the Service's pods.
    pub selector: StringMap,
    /// The first cluster IP. It is `None` for a headless service.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Box<str>,
    /// All cluster IPs, one per IP family.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: List<Box<str>>,
    pub ports: List<ServicePort>,
    /// IP families, with the primary one first: `IPv4`, `IPv6`.
    pub ip_families: List<Box<str>>,
    /// Whether all pods count as ready.
    pub publish_not_ready_addresses: bool,
    /// Traffic distribution: `PreferClose`, `PreferSameZone` or `PreferSameNode`. Empty for no preference.
    pub traffic_distribution: Box<str>,
    /// Whether a load balancer gets node ports. By default it does.
    pub allocate_load_balancer_node_ports: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    /// Name of the port. Empty for an only port.
    pub name: Box<str>,
    /// Protocol: `TCP`, `UDP` or `SCTP`. Empty means `TCP`.
    pub protocol: Box<str>,
    pub app_protocol: Option<Box<str>>,
    /// Port number.
    pub port: i64,
    /// Port of the pods, as a number or a name.
    pub target_port: Option<IntOrString>,
    /// Port on the nodes, or 0 if there is none.
    pub node_port: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EndpointSlice {
    pub metadata: ObjectMeta,
    pub endpoints: List<Endpoint>,
    pub ports: List<EndpointPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Endpoint {
    /// Addresses of the same pod.
    pub addresses: List<Box<str>>,
    pub conditions: EndpointConditions,
    /// The pod of the endpoint.
    pub target_ref: ObjectReference,
}

/// A reference to an object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ObjectReference {
    pub kind: Box<str>,
    pub name: Box<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Whether the endpoint is ready. `None` means ready.
    pub ready: Option<bool>,
}

/// A port of an EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointPort {
    /// Name of the service port.
    pub name: Box<str>,
    /// Port number. `None` means all ports.
    pub port: Option<i64>,
}
