//! NetworkPolicies, namespaces and pods as the API server sends them, with the fields that policies depend on. Pure.

use std::net::IpAddr;

use api::network_policy::{Labels, NamedPort, Pod, Policy, Protocol};
use client::Versioned;
use k8s_openapi::api::networking::v1::NetworkPolicySpec;
use serde::Deserialize;

use super::snapshot::{ObjectName, PeerPod};

/// The metadata of all kinds.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata {
    pub name: String,
    pub namespace: String,
    resource_version: String,
    pub labels: Option<Labels>,
}

impl Metadata {
    pub fn object_name(&self) -> ObjectName {
        (self.namespace.clone(), self.name.clone())
    }
}

/// A NetworkPolicy.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiPolicy {
    pub metadata: Metadata,
    spec: NetworkPolicySpec,
}

impl ApiPolicy {
    /// The fields that are kept.
    pub fn into_policy(self) -> Policy {
        let Metadata { namespace, name, .. } = self.metadata;
        Policy { namespace, name, spec: self.spec }
    }
}

/// A Namespace.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiNamespace {
    pub metadata: Metadata,
}

/// A pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiPod {
    pub metadata: Metadata,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<String>,
    host_network: bool,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    ports: Option<Vec<Port>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Port {
    name: Option<String>,
    container_port: i64,
    protocol: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs")]
    pod_ips: Option<Vec<PodIp>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodIp {
    ip: String,
}

impl ApiPod {
    /// The fields that are kept. `None` if the pod is no peer: without an address, on the host network, or ended, so
    /// that another pod may have its address.
    pub fn into_peer(self) -> Option<PeerPod> {
        let Self { metadata, spec, status } = self;
        let has_ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let addresses: Vec<IpAddr> = match status.pod_ips.filter(|ips| !ips.is_empty()) {
            Some(ips) => ips.iter().filter_map(|one| one.ip.parse().ok()).collect(),
            None => status.pod_ip.iter().filter_map(|ip| ip.parse().ok()).collect(),
        };
        if has_ended || spec.host_network || addresses.is_empty() {
            return None;
        }
        let containers = spec.containers.into_iter().chain(spec.init_containers).flatten();
        let ports = containers.flat_map(|container| container.ports.unwrap_or_default());
        let ports =
            ports.filter_map(|port| named_port(port.name, port.container_port, port.protocol.as_deref()));
        let pod = Pod {
            namespace: metadata.namespace,
            name: metadata.name,
            labels: metadata.labels.unwrap_or_default(),
            addresses,
            ports: ports.collect(),
        };
        Some(PeerPod { node: spec.node_name.unwrap_or_default(), pod })
    }
}

/// A named port of a container. `None` without a name.
pub fn named_port(name: Option<String>, number: i64, protocol: Option<&str>) -> Option<NamedPort> {
    let name = name.filter(|name| !name.is_empty())?;
    let protocol = Protocol::parse(protocol.unwrap_or_default())?;
    Some(NamedPort { name, protocol, number: u16::try_from(number).ok()? })
}

impl Versioned for ApiPolicy {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

impl Versioned for ApiNamespace {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

impl Versioned for ApiPod {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}
