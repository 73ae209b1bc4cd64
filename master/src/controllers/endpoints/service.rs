//! Reads the fields of a Service that decide its endpoints. Pure.

use std::net::IpAddr;

use client::Json;
use serde_json::{Map, Value};

use crate::controllers::object::{at, text};

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

    /// Parses the name used in Services and EndpointSlices.
    pub fn read(name: &str) -> Option<Self> {
        match name {
            "IPv4" => Some(Self::V4),
            "IPv6" => Some(Self::V6),
            _ => None,
        }
    }

    /// The name used in Services and EndpointSlices.
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
    /// The port name; empty for a single port.
    pub name: String,
    /// TCP, UDP or SCTP.
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
    /// No preference.
    Any,
    /// Prefer endpoints in the same zone.
    SameZone,
    /// Prefer endpoints on the same node, then in the same zone.
    SameNode,
}

/// A service with a selector.
#[derive(Clone, Debug)]
pub struct Service {
    /// The service name.
    pub name: String,
    /// The pod selector.
    pub selector: Map<String, Value>,
    pub ports: Vec<ServicePort>,
    /// Whether the service is headless.
    pub is_headless: bool,
    /// `publishNotReadyAddresses`: all pods count as ready.
    pub publishes_all: bool,
    /// The traffic distribution of a service.
    pub traffic_distribution: TrafficDistribution,
    /// The IP families, primary first; empty if none are assigned.
    pub families: Vec<Family>,
}

impl Service {
    /// Reads a service; `None` if its endpoints are not computed from pods.
    pub fn of(service: &Json) -> Option<Self> {
        let spec = |field: &str| at(service, &format!("/spec/{field}"));
        let selector = spec("selector").and_then(Value::as_object).filter(|selector| !selector.is_empty())?;
        if text(spec("type")) == "ExternalName" {
            return None;
        }
        let address = text(spec("clusterIP"));
        let mut families: Vec<Family> =
            list(spec("ipFamilies")).filter_map(|name| Family::read(name.as_str()?)).collect();
        if families.is_empty() {
            families.extend(address.parse().ok().map(Family::of));
        }
        Some(Self {
            name: text(at(service, "/metadata/name")),
            selector: selector.clone(),
            ports: list(spec("ports")).filter_map(port).collect(),
            is_headless: address == "None",
            publishes_all: spec("publishNotReadyAddresses").and_then(Value::as_bool).unwrap_or(false),
            traffic_distribution: match text(spec("trafficDistribution")).as_str() {
                "PreferClose" | "PreferSameZone" => TrafficDistribution::SameZone,
                "PreferSameNode" => TrafficDistribution::SameNode,
                _ => TrafficDistribution::Any,
            },
            families,
        })
    }

    /// The selector as label pairs.
    pub fn selector_labels(&self) -> Vec<(&str, &str)> {
        self.selector
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
            .collect()
    }
}

fn port(port: &Value) -> Option<ServicePort> {
    let number = |field: &str| port.get(field).and_then(Value::as_u64).filter(|number| *number > 0);
    let target = match port.get("targetPort").and_then(Value::as_str) {
        Some(name) if !name.is_empty() => Target::Name(name.to_owned()),
        _ => Target::Number(number("targetPort").or_else(|| number("port"))?),
    };
    let protocol = text(port.get("protocol"));
    Some(ServicePort {
        name: text(port.get("name")),
        protocol: if protocol.is_empty() { "TCP".to_owned() } else { protocol },
        app_protocol: port.get("appProtocol").and_then(Value::as_str).map(str::to_owned),
        target,
    })
}

/// Whether a non-empty selector matches the labels.
pub fn selects(selector: &Map<String, Value>, labels: &Map<String, Value>) -> bool {
    !selector.is_empty() && selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// The items of a list; none if it is missing.
pub fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}
