//! What a pod offers to a service. Pure.

use std::net::IpAddr;

use api::strategy::addresses::leads_nowhere;
use serde_json::{Value, json};

use super::fit::Port;
use super::service::{Family, Near, Service, ServicePort, Target, list};
use crate::controllers::client::Json;
use crate::controllers::object::{at, text};

/// A pod as a service sees it.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a>(pub &'a Json);

impl Pod<'_> {
    /// It has addresses and has not come to its end.
    pub fn is_there(&self) -> bool {
        !matches!(text(at(self.0, "/status/phase")).as_str(), "Succeeded" | "Failed")
            && self.addresses().next().is_some()
    }

    /// It is asked to end.
    pub fn is_ending(&self) -> bool {
        super::is_ending(self.0)
    }

    /// It says that it can serve.
    pub fn is_ready(&self) -> bool {
        list(at(self.0, "/status/conditions")).any(|condition| {
            condition.get("type") == Some(&"Ready".into()) && condition.get("status") == Some(&"True".into())
        })
    }

    /// Its addresses, each in its one spelling. One that leads nowhere from another machine is none: a slice with it
    /// would be refused as a whole.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let status = |field: &str| at(self.0, &format!("/status/{field}"));
        let mut told: Vec<String> = list(status("podIPs")).map(|ip| text(ip.get("ip"))).collect();
        if told.is_empty() {
            told.push(text(status("podIP")));
        }
        told.into_iter().filter_map(|ip| ip.parse().ok()).filter(|ip| leads_nowhere(*ip).is_none())
    }

    /// The node it is on, if any.
    pub fn node(&self) -> String {
        text(at(self.0, "/spec/nodeName"))
    }

    /// The name that it has below the service's, if any.
    pub fn host_name(&self, service: &Service) -> Option<String> {
        let name = text(at(self.0, "/spec/hostname"));
        (!name.is_empty() && text(at(self.0, "/spec/subdomain")) == service.name).then_some(name)
    }

    /// What names it.
    pub fn reference(&self) -> Value {
        let of = |field: &str| text(at(self.0, &format!("/metadata/{field}")));
        json!({"kind": "Pod", "namespace": of("namespace"), "name": of("name"), "uid": of("uid")})
    }

    /// Where the ports of a service lead in it; those that it does not have are left out.
    pub fn ports(&self, service: &Service) -> Vec<Port> {
        let number = |port: &ServicePort| match &port.target {
            Target::Number(number) => Some(*number),
            Target::Name(name) => self.port_called(name, &port.protocol),
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

    /// A port of a container that serves for as long as the pod lives: sidecars do, other init containers do not.
    fn port_called(&self, name: &str, protocol: &str) -> Option<u64> {
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

    /// It as an endpoint with those of its addresses that are of a family; `None` when it has none. `zone` is that of its node.
    pub fn endpoint(&self, service: &Service, family: Family, zone: &str) -> Option<Value> {
        let of_family = self.addresses().filter(|ip| Family::of(*ip) == family);
        let addresses: Vec<String> = of_family.map(|ip| ip.to_string()).collect();
        if addresses.is_empty() {
            return None;
        }
        let (serving, terminating) = (self.is_ready(), self.is_ending());
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
            if service.near != Near::Anywhere {
                hints.insert("forZones".to_owned(), json!([{"name": zone}]));
            }
        }
        if !node.is_empty() {
            if service.near == Near::Node {
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
