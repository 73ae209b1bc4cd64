//! Where something listens that is asked through a pod or a service. Pure.

use std::net::IpAddr;

use apiserver::Status;
use http::StatusCode;
use serde_json::{Map, Value};

use super::place::Place;

type Json = Map<String, Value>;

/// The metadata of machines in some clouds over IPv6, which is no link-local address as it is over IPv4.
const METADATA: &str = "fd00:ec2::254";
/// What a pod is called that has ended: its address may be another's by now.
const ENDED: [&str; 2] = ["Succeeded", "Failed"];

/// Whom a client names: `name`, `name:port` or `https:name:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// The object.
    pub name: String,
    /// Its port as it is written: empty, a number, or a service's name of it.
    pub port: String,
    text: String,
}

impl Named {
    /// What the text says; `kind` is `pod` or `service`.
    ///
    /// # Errors
    /// 400 when it is none of them.
    pub fn read(text: &str, kind: &str) -> Result<Self, Status> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => ("none", "", ""),
        };
        if name.is_empty() || !["", "http", "https"].contains(&scheme) {
            return Err(Status::bad_request(format!("invalid {kind} request {text:?}")));
        }
        let (name, port) = (name.to_owned(), port.to_owned());
        Ok(Self { tls: scheme == "https", name, port, text: text.to_owned() })
    }

    /// The port that the scheme has where nobody says one.
    fn usual_port(&self) -> u16 {
        if self.tls { 443 } else { 80 }
    }
}

/// Where a pod listens: its first port, where none is named.
///
/// # Errors
/// 400 when the port is none, the pod has no address, or one that nobody is passed on to.
pub fn of_pod(pod: &Json, asked: &Named) -> Result<Place, Status> {
    let port = if asked.port.is_empty() {
        first_port(pod).unwrap_or_else(|| asked.usual_port())
    } else {
        let wrong =
            |_| Status::bad_request(format!("invalid pod request {:?}: a port is a number", asked.text));
        asked.port.parse().map_err(wrong)?
    };
    let status = pod.get("status");
    if let Some(phase) = status.and_then(|status| text(status, "phase")).filter(|phase| ENDED.contains(phase))
    {
        return Err(Status::bad_request(format!(
            "address not allowed: the pod {:?} has ended ({phase})",
            asked.name
        )));
    }
    let address = status.and_then(|status| text(status, "podIP"));
    let Some(address) = address else {
        let why = format!("address not allowed: the pod {:?} has none yet", asked.name);
        return Err(Status::bad_request(why));
    };
    if !is_allowed(address) {
        let why = format!("address not allowed: {address} of the pod {:?} is none of a pod's", asked.name);
        return Err(Status::bad_request(why));
    }
    Ok(Place { host: address.to_owned(), port })
}

fn first_port(pod: &Json) -> Option<u16> {
    let containers = pod.get("spec")?.get("containers")?.as_array()?;
    let ports = containers.iter().find_map(|container| container.get("ports")?.as_array()?.first());
    u16::try_from(ports?.get("containerPort")?.as_u64()?).ok()
}

/// Where a service is reached: the endpoints that are ready, have the port, and are those of a pod, which `has` says.
///
/// # Errors
/// 503 when it has no such port.
pub fn of_service(
    service: &Json,
    slices: &[Json],
    asked: &Named,
    has: impl Fn(&str, &str) -> bool,
) -> Result<Vec<Place>, Status> {
    let ports = service.get("spec").and_then(|spec| spec.get("ports")).and_then(Value::as_array);
    let name = match asked.port.parse::<u64>() {
        Ok(number) => {
            let mut ports = ports.into_iter().flatten();
            let port = ports.find(|port| port.get("port").and_then(Value::as_u64) == Some(number));
            let none = || unavailable(format!("no service port {number} found for service {:?}", asked.name));
            text(port.ok_or_else(none)?, "name").unwrap_or_default()
        }
        Err(_) => asked.port.as_str(),
    };
    let mut places = Vec::new();
    for slice in slices {
        let list = |field: &str| slice.get(field).and_then(Value::as_array).into_iter().flatten();
        let port = list("ports").find(|port| text(port, "name").unwrap_or_default() == name);
        let port = port.and_then(|port| u16::try_from(port.get("port")?.as_u64()?).ok());
        let Some(port) = port else { continue };
        for endpoint in list("endpoints") {
            let pod = endpoint.get("targetRef").filter(|of| text(of, "kind") == Some("Pod"));
            let Some(pod) = pod.and_then(|of| text(of, "name")) else { continue };
            let addresses = endpoint.get("addresses").and_then(Value::as_array).into_iter().flatten();
            let addresses = addresses.filter_map(Value::as_str);
            let good =
                addresses.filter(|address| is_ready(endpoint) && is_allowed(address) && has(pod, address));
            places.extend(good.map(|address| Place { host: address.to_owned(), port }));
        }
    }
    Ok(places)
}

/// That nobody listens behind a service.
pub fn no_endpoints(asked: &Named) -> Status {
    unavailable(format!("no endpoints available for service {:?}", asked.text))
}

fn unavailable(why: String) -> Status {
    Status::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", why)
}

/// Whether a pod has that address, of several.
pub fn has_address(pod: &Json, address: &str) -> bool {
    let addresses = pod.get("status").and_then(|status| status.get("podIPs")).and_then(Value::as_array);
    let mut addresses = addresses.into_iter().flatten().filter_map(|ip| text(ip, "ip"));
    addresses.any(|ip| ip == address)
        || pod.get("status").and_then(|status| text(status, "podIP")) == Some(address)
}

/// An endpoint that does not say is ready.
fn is_ready(endpoint: &Value) -> bool {
    endpoint.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true)
}

/// Whether a pod may have that address: not the master's own machine, its link, its cloud's secrets, or many at once.
fn is_allowed(address: &str) -> bool {
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    match address.to_canonical() {
        IpAddr::V4(address) => {
            !(address.is_loopback()
                || address.is_link_local()
                || address.is_unspecified()
                || address.is_multicast()
                || address.is_broadcast())
        }
        IpAddr::V6(address) => {
            !(address.is_loopback()
                || address.is_unicast_link_local()
                || address.is_unspecified()
                || address.is_multicast()
                || METADATA.parse() == Ok(address))
        }
    }
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
