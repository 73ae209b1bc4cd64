//! Finds the address of a pod or service for the proxy. Pure.

use std::net::IpAddr;

use apiserver::Status;
use http::StatusCode;

use super::backend_address::BackendAddress;
use crate::objects::Pod;
use crate::objects::service::{Endpoint, EndpointSlice, Service};

/// IPv6 address of the AWS metadata service. Unlike the IPv4 address it is not link-local.
const IPV6_METADATA_ADDRESS: &str = "fd00:ec2::254";

/// A parsed name of the form `name`, `name:port` or `https:name:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyTarget {
    /// True for https.
    pub tls: bool,
    /// Name of the pod or service.
    pub name: String,
    /// The port as the client wrote it: empty, a number, or the name of a service port.
    pub port: String,
    text: String,
}

impl ProxyTarget {
    /// Parses a name. `kind` is `pod` or `service`.
    ///
    /// # Errors
    /// 400 if the text has another form.
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

    /// The default port of the scheme.
    fn default_port(&self) -> u16 {
        if self.tls { 443 } else { 80 }
    }
}

/// The address of a pod. The port defaults to the pod's first port.
///
/// # Errors
/// 400 if the port is invalid, or the pod has no address or one that is not allowed.
pub fn pod_address(pod: &Pod, target: &ProxyTarget) -> Result<BackendAddress, Status> {
    let port = if target.port.is_empty() {
        first_port(pod).unwrap_or_else(|| target.default_port())
    } else {
        let wrong =
            |_| Status::bad_request(format!("invalid pod request {:?}: a port is a number", target.text));
        target.port.parse().map_err(wrong)?
    };
    // The address of a terminated pod may be in use by another pod.
    if pod.status.is_terminal() {
        return Err(Status::bad_request(format!(
            "address not allowed: the pod {:?} has ended ({})",
            target.name, pod.status.phase
        )));
    }
    let address = &pod.status.pod_ip;
    if address.is_empty() {
        let why = format!("address not allowed: the pod {:?} has none yet", target.name);
        return Err(Status::bad_request(why));
    }
    if !is_allowed(address) {
        let why = format!("address not allowed: {address} of the pod {:?} is none of a pod's", target.name);
        return Err(Status::bad_request(why));
    }
    Ok(BackendAddress { host: address.to_string(), port })
}

fn first_port(pod: &Pod) -> Option<u16> {
    let port = pod.spec.containers.iter().find_map(|container| container.ports.first())?;
    u16::try_from(port.container_port).ok()
}

/// The addresses of a service: its ready endpoints with this port that are addresses of pods. `has` returns whether
/// a pod has an address.
///
/// # Errors
/// 503 if the service has no such port.
pub fn service_addresses(
    service: &Service,
    slices: &[EndpointSlice],
    target: &ProxyTarget,
    has: impl Fn(&str, &str) -> bool,
) -> Result<Vec<BackendAddress>, Status> {
    let name = match target.port.parse::<u64>() {
        Ok(number) => {
            let is_named = |port: i64| u64::try_from(port) == Ok(number);
            let port = service.spec.ports.iter().find(|port| is_named(port.port));
            let none =
                || unavailable(format!("no service port {number} found for service {:?}", target.name));
            &*port.ok_or_else(none)?.name
        }
        Err(_) => target.port.as_str(),
    };
    let mut addresses = Vec::new();
    for slice in slices {
        let port = slice.ports.iter().find(|port| &*port.name == name);
        let port = port.and_then(|port| u16::try_from(port.port?).ok());
        let Some(port) = port else { continue };
        let is_ready = |endpoint: &&Endpoint| endpoint.conditions.ready.unwrap_or(true);
        for endpoint in slice.endpoints.iter().filter(is_ready) {
            let pod = &endpoint.target_ref;
            if &*pod.kind != "Pod" || pod.name.is_empty() {
                continue;
            }
            let ips = endpoint.addresses.iter();
            let good = ips.filter(|address| is_allowed(address) && has(&pod.name, address));
            addresses.extend(good.map(|address| BackendAddress { host: address.to_string(), port }));
        }
    }
    Ok(addresses)
}

/// The status for a service without usable endpoints.
pub fn no_endpoints(target: &ProxyTarget) -> Status {
    unavailable(format!("no endpoints available for service {:?}", target.text))
}

fn unavailable(why: String) -> Status {
    Status::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", why)
}

pub fn has_address(pod: &Pod, address: &str) -> bool {
    let others = pod.status.pod_ips.iter().map(|other| &other.ip);
    !address.is_empty() && std::iter::once(&pod.status.pod_ip).chain(others).any(|ip| **ip == *address)
}

/// Whether the proxy may connect to the address. Loopback, link-local, unspecified and multicast addresses and
/// cloud metadata services are excluded.
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
                || IPV6_METADATA_ADDRESS.parse() == Ok(address))
        }
    }
}

#[cfg(test)]
mod tests;
