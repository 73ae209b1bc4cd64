//! What a service says about who stands behind it. Pure.

use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::controllers::client::Json;
use crate::controllers::object::{at, text};

/// A family of addresses, by which slices are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// 32 bits.
    V4,
    /// 128 bits.
    V6,
}

impl Family {
    /// That of an address.
    pub fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// By its name in services and slices.
    pub fn read(name: &str) -> Option<Self> {
        match name {
            "IPv4" => Some(Self::V4),
            "IPv6" => Some(Self::V6),
            _ => None,
        }
    }

    /// Its name in services and slices.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// A port of a service, and where it leads in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name, empty when it is the only one.
    pub name: String,
    /// TCP, UDP or SCTP.
    pub protocol: String,
    /// What is spoken there, where somebody says so.
    pub app_protocol: Option<String>,
    /// A number, or the name of a container's port.
    pub target: Target,
}

/// Where a port leads in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To that port.
    Number(u64),
    /// To the port of that name.
    Name(String),
}

/// To whom traffic is to go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// To anybody.
    Anywhere,
    /// To the same zone.
    Zone,
    /// To the same node, then to the same zone.
    Node,
}

/// A service that selects pods.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Which pods are behind it.
    pub selector: Map<String, Value>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// It has no address of its own.
    pub is_headless: bool,
    /// Pods count as ready from the start and until they are gone.
    pub publishes_all: bool,
    /// To whom traffic is to go first.
    pub near: Near,
    /// The families it was given, the first one first; none where nobody has decided.
    pub families: Vec<Family>,
}

impl Service {
    /// Reads a service; `None` when nobody but its owner says who stands behind it.
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
            near: match text(spec("trafficDistribution")).as_str() {
                "PreferClose" | "PreferSameZone" => Near::Zone,
                "PreferSameNode" => Near::Node,
                _ => Near::Anywhere,
            },
            families,
        })
    }

    /// Its selector as labels that a pod must have.
    pub fn wanted_labels(&self) -> Vec<(&str, &str)> {
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

/// True when labels have all that a selector wants, and it wants something.
pub fn selects(selector: &Map<String, Value>, labels: &Map<String, Value>) -> bool {
    !selector.is_empty() && selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}

/// The items of a list that may be missing.
pub fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}
