//! Reads a service. Pure.

use std::net::IpAddr;

use crate::objects::{IntOrString, StringMap, service};

/// The address family of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Parses the name of a family in Services and EndpointSlices.
    pub fn read(name: &str) -> Option<Self> {
        match name {
            "IPv4" => Some(Self::V4),
            "IPv6" => Some(Self::V6),
            _ => None,
        }
    }

    /// Returns the name of the family in Services and EndpointSlices.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// A service port and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// The port name. Empty if there is a single port.
    pub name: String,
    /// The protocol: TCP, UDP or SCTP.
    pub protocol: String,
    /// The application protocol, if it is set.
    pub app_protocol: Option<String>,
    /// The target port.
    pub target: Target,
}

/// A target port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A port number.
    Number(u64),
    /// The name of a container port.
    Name(String),
}

/// The traffic distribution of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficDistribution {
    /// All endpoints are equally preferred.
    Any,
    /// Endpoints in the same zone are preferred.
    SameZone,
    /// Endpoints on the same node are preferred, then those in the same zone.
    SameNode,
}

/// A service with a selector.
#[derive(Clone, Debug)]
pub struct Service {
    /// The service name.
    pub name: String,
    /// The pod selector.
    pub selector: StringMap,
    pub ports: Vec<ServicePort>,
    /// Whether the service is headless.
    pub is_headless: bool,
    /// Whether all pods count as ready: `publishNotReadyAddresses`.
    pub publishes_all: bool,
    /// The traffic distribution of a service.
    pub traffic_distribution: TrafficDistribution,
    /// The IP families, with the primary one first. Empty if none are assigned.
    pub families: Vec<Family>,
}

impl Service {
    /// Reads a service. Returns `None` if its endpoints are not computed from pods.
    pub fn of(service: &service::Service) -> Option<Self> {
        let spec = &service.spec;
        if spec.selector.is_empty() || &*spec.r#type == "ExternalName" {
            return None;
        }
        let mut families: Vec<Family> =
            spec.ip_families.iter().filter_map(|name| Family::read(name)).collect();
        if families.is_empty() {
            families.extend(spec.cluster_ip.parse().ok().map(Family::of));
        }
        Some(Self {
            name: service.metadata.name.to_string(),
            selector: spec.selector.clone(),
            ports: spec.ports.iter().filter_map(port).collect(),
            is_headless: &*spec.cluster_ip == "None",
            publishes_all: spec.publish_not_ready_addresses,
            traffic_distribution: match &*spec.traffic_distribution {
                "PreferClose" | "PreferSameZone" => TrafficDistribution::SameZone,
                "PreferSameNode" => TrafficDistribution::SameNode,
                _ => TrafficDistribution::Any,
            },
            families,
        })
    }

    /// The selector as label pairs.
    pub fn selector_labels(&self) -> Vec<(&str, &str)> {
        self.selector.iter().collect()
    }
}

fn port(port: &service::ServicePort) -> Option<ServicePort> {
    let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
    let target = match &port.target_port {
        Some(IntOrString::String(name)) if !name.is_empty() => Target::Name(name.to_string()),
        Some(IntOrString::Int(number)) if *number > 0 => Target::Number(positive(*number)?),
        _ => Target::Number(positive(port.port)?),
    };
    Some(ServicePort {
        name: port.name.to_string(),
        protocol: if port.protocol.is_empty() { "TCP".to_owned() } else { port.protocol.to_string() },
        app_protocol: port.app_protocol.as_deref().map(str::to_owned),
        target,
    })
}

/// Whether a non-empty selector matches the labels.
pub fn selects(selector: &StringMap, labels: &StringMap) -> bool {
    !selector.is_empty() && selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}
