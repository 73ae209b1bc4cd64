//! Reads a pod as an endpoint of a service. Pure.

use std::net::IpAddr;

use api::strategy::addresses::reject_special_ip;
use client::Json;
use serde_json::{Value, json};

use super::packing::Port;
use super::service::{Family, Service, ServicePort, Target, TrafficDistribution, list};
use crate::controllers::object::{at, text};

/// A pod as an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a>(pub &'a Json);

impl Pod<'_> {
    /// Whether the pod has addresses and has not terminated.
    pub fn has_endpoint(&self) -> bool {
        !matches!(text(at(self.0, "/status/phase")).as_str(), "Succeeded" | "Failed")
            && self.addresses().next().is_some()
    }

    /// Whether the pod is being deleted.
    pub fn is_terminating(&self) -> bool {
        super::is_terminating(self.0)
    }

    /// Whether the condition `Ready` is true.
    pub fn is_ready(&self) -> bool {
        list(at(self.0, "/status/conditions")).any(|condition| {
            condition.get("type") == Some(&"Ready".into()) && condition.get("status") == Some(&"True".into())
        })
    }

    /// The pod's addresses, normalized. Loopback, link-local and similar ones are left out, since the API server would
    /// reject the whole slice.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let status = |field: &str| at(self.0, &format!("/status/{field}"));
        let mut told: Vec<String> = list(status("podIPs")).map(|ip| text(ip.get("ip"))).collect();
        if told.is_empty() {
            told.push(text(status("podIP")));
        }
        told.into_iter().filter_map(|ip| ip.parse().ok()).filter(|ip| reject_special_ip(*ip).is_none())
    }

    /// The name of its node; empty if it is not bound.
    pub fn node(&self) -> String {
        text(at(self.0, "/spec/nodeName"))
    }

    /// The pod's host name, if its subdomain is the service.
    pub fn host_name(&self, service: &Service) -> Option<String> {
        let name = text(at(self.0, "/spec/hostname"));
        (!name.is_empty() && text(at(self.0, "/spec/subdomain")) == service.name).then_some(name)
    }

    /// The object reference of the pod.
    pub fn reference(&self) -> Value {
        let of = |field: &str| text(at(self.0, &format!("/metadata/{field}")));
        json!({"kind": "Pod", "namespace": of("namespace"), "name": of("name"), "uid": of("uid")})
    }

    /// Resolves the ports of a service to container ports; ports that the pod lacks are left out.
    pub fn ports(&self, service: &Service) -> Vec<Port> {
        let number = |port: &ServicePort| match &port.target {
            Target::Number(number) => Some(*number),
            Target::Name(name) => self.container_port(name, &port.protocol),
        };
        let found = service.ports.iter().filter_map(|port| {
            Some(Port {
                name: port.name.clone(),
                protocol: port.protocol.clone(),
                number: Some(number(port)?),
                app_protocol: port.app_protocol.clone(),
            })
        });
        found.collect()
    }

    /// A named port of a regular or sidecar container; other init containers do not serve.
    fn container_port(&self, name: &str, protocol: &str) -> Option<u64> {
        let stays = |container: &&Value| container.get("restartPolicy") == Some(&"Always".into());
        let containers = list(at(self.0, "/spec/containers"))
            .chain(list(at(self.0, "/spec/initContainers")).filter(stays));
        let is_it = |port: &&Value| {
            let spoken = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
            port.get("name").and_then(Value::as_str) == Some(name) && spoken == protocol
        };
        let mut ports = containers.flat_map(|container| list(container.get("ports")));
        ports.find(is_it)?.get("containerPort")?.as_u64()
    }

    /// The pod as an endpoint of one address family; `None` if it has no such address. `zone` is that of its node.
    pub fn endpoint(&self, service: &Service, family: Family, zone: &str) -> Option<Value> {
        let of_family = self.addresses().filter(|ip| Family::of(*ip) == family);
        let addresses: Vec<String> = of_family.map(|ip| ip.to_string()).collect();
        if addresses.is_empty() {
            return None;
        }
        let (serving, terminating) = (self.is_ready(), self.is_terminating());
        let ready = service.publishes_all || (serving && !terminating);
        let mut endpoint = json!({
            "addresses": addresses,
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
            "targetRef": self.reference(),
        });
        let node = self.node();
        if let Some(name) = self.host_name(service) {
            endpoint["hostname"] = name.into();
        }
        let mut hints = Json::new();
        if !zone.is_empty() {
            endpoint["zone"] = zone.into();
            if service.traffic_distribution != TrafficDistribution::Any {
                hints.insert("forZones".to_owned(), json!([{"name": zone}]));
            }
        }
        if !node.is_empty() {
            if service.traffic_distribution == TrafficDistribution::SameNode {
                hints.insert("forNodes".to_owned(), json!([{"name": node}]));
            }
            endpoint["nodeName"] = node.into();
        }
        if ready && !hints.is_empty() {
            endpoint["hints"] = hints.into();
        }
        Some(endpoint)
    }
}
