//! Reads a pod as an endpoint of a service. Pure.

use std::net::IpAddr;

use api::strategy::addresses::reject_special_ip;
use client::Json;
use serde_json::{Value, json};

use super::packing::Port;
use super::service::{Family, Service, ServicePort, Target, TrafficDistribution};
use crate::objects::{self, Condition};

/// A pod as an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a>(pub &'a objects::Pod);

impl Pod<'_> {
    /// Whether the pod has addresses and has not terminated.
    pub fn has_endpoint(&self) -> bool {
        !self.0.status.is_terminal() && self.addresses().next().is_some()
    }

    /// Whether the pod is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.0.metadata.is_terminating()
    }

    /// Whether the condition `Ready` is true.
    pub fn is_ready(&self) -> bool {
        self.0.status.conditions.of_type("Ready").is_some_and(Condition::is_true)
    }

    /// Returns the pod's addresses, normalized. Omits loopback, link-local and similar addresses, because the API
    /// server would reject the whole slice.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let status = &self.0.status;
        let only = status.pod_ips.is_empty().then_some(&status.pod_ip);
        let all = status.pod_ips.iter().map(|ip| &ip.ip).chain(only);
        all.filter_map(|ip| ip.parse().ok()).filter(|ip| reject_special_ip(*ip).is_none())
    }

    /// The name of the pod's node. Empty if the pod is not bound.
    pub fn node(&self) -> &str {
        &self.0.spec.node_name
    }

    /// The pod's host name, if its subdomain is the service.
    pub fn host_name(&self, service: &Service) -> Option<&str> {
        let spec = &self.0.spec;
        (!spec.hostname.is_empty() && *spec.subdomain == *service.name).then_some(&spec.hostname)
    }

    /// The object reference of the pod.
    pub fn reference(&self) -> Value {
        let objects::ObjectMeta { namespace, name, uid, .. } = &self.0.metadata;
        json!({"kind": "Pod", "namespace": namespace, "name": name, "uid": uid})
    }

    /// Resolves the ports of a service to container ports. Omits ports that the pod lacks.
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

    /// Returns a named port of a regular or sidecar container. Other init containers do not serve.
    fn container_port(&self, name: &str, protocol: &str) -> Option<u64> {
        let spec = &self.0.spec;
        let sidecars = spec.init_containers.iter().filter(|container| container.is_sidecar());
        let mut ports = spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
        let found = ports.find(|port| {
            let own = if port.protocol.is_empty() { "TCP" } else { &*port.protocol };
            *port.name == *name && own == protocol
        });
        u64::try_from(found?.container_port).ok()
    }

    /// Returns the pod as an endpoint of one address family, or `None` if it has no such address. `zone` is the
    /// zone of the pod's node.
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
