//! Computes the Service, Endpoints, EndpointSlice and ServiceCIDR `kubernetes`. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use api::strategy::addresses::reject_special_ip;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::controllers::Json;
use crate::objects::{self, Condition, Conditioned, List, Spec};

/// The name of all four objects.
pub const NAME: &str = "kubernetes";
/// The namespace of all except the ServiceCIDR.
pub const NAMESPACE: &str = "default";
/// The port of the service.
const PORT: u16 = 443;
/// The name of the HTTPS port of the Service.
const PORT_NAME: &str = "https";
/// The condition of a ServiceCIDR that is in use.
const READY: &str = "Ready";

/// The API servers and their service.
#[derive(Clone, Debug)]
pub struct ApiServers {
    /// The cluster IP of the service.
    pub service: IpAddr,
    /// The port of the API servers.
    pub port: u16,
    /// The addresses of the API servers.
    pub masters: BTreeSet<IpAddr>,
}

/// The write that an object needs.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The object is correct.
    Nothing,
    /// Create the missing object.
    Create(Value),
    /// Update the object.
    Update(Json),
    UpdateStatus(Json),
    /// Delete the object, so that the next reconciliation creates it with other immutable fields.
    Delete,
}

impl ApiServers {
    /// The server addresses that are usable in the family of the service.
    fn addresses(&self) -> Vec<String> {
        let of_family = self.masters.iter().filter(|ip| ip.is_ipv4() == self.service.is_ipv4());
        of_family.filter(|ip| reject_special_ip(**ip).is_none()).map(IpAddr::to_string).collect()
    }

    fn family(&self) -> &'static str {
        if self.service.is_ipv4() { "IPv4" } else { "IPv6" }
    }

    fn port(&self) -> Value {
        json!({"name": PORT_NAME, "port": self.port, "protocol": "TCP"})
    }
}

/// Plans the Service. Its cluster IP is immutable. To change it, an administrator deletes the Service.
pub fn service(found: Option<&Json>, servers: &ApiServers) -> Step {
    let ports = json!([{"name": PORT_NAME, "port": PORT, "protocol": "TCP", "targetPort": servers.port}]);
    let Some(found) = found else {
        let address = servers.service.to_string();
        return Step::Create(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"component": "apiserver", "provider": NAME}},
            "spec": {
                "type": "ClusterIP",
                "clusterIP": address,
                "clusterIPs": [address],
                "ipFamilies": [servers.family()],
                "ipFamilyPolicy": "SingleStack",
                "sessionAffinity": "None",
                "ports": ports,
            },
        }));
    };
    changed(found, |wanted| {
        if let Some(Value::Object(spec)) = wanted.get_mut("spec") {
            spec.insert("ports".to_owned(), ports);
        }
    })
}

/// Plans the Endpoints. They are not mirrored, because the slice is written directly.
pub fn endpoints(found: Option<&Json>, servers: &ApiServers) -> Step {
    let addresses: Vec<Value> = servers.addresses().iter().map(|ip| json!({"ip": ip})).collect();
    let labels = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    // Validation rejects a subset without addresses.
    let subsets =
        (!addresses.is_empty()).then(|| json!([{"addresses": addresses, "ports": [servers.port()]}]));
    let Some(found) = found else {
        let metadata = json!({"name": NAME, "namespace": NAMESPACE, "labels": labels});
        let mut endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata});
        if let Some(subsets) = subsets {
            endpoints["subsets"] = subsets;
        }
        return Step::Create(endpoints);
    };
    changed(found, |wanted| {
        label(wanted, labels);
        match subsets {
            Some(subsets) => wanted.insert("subsets".to_owned(), subsets),
            None => wanted.remove("subsets"),
        };
    })
}

/// Plans the EndpointSlice.
pub fn slice(found: Option<&Json>, servers: &ApiServers) -> Step {
    let addresses = servers.addresses();
    let ready = |ip: &String| json!({"addresses": [ip], "conditions": {"ready": true}});
    let endpoints: Vec<Value> = addresses.iter().map(ready).collect();
    let labels = json!({"kubernetes.io/service-name": NAME});
    let Some(found) = found else {
        return Step::Create(json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": labels},
            "addressType": servers.family(),
            "endpoints": endpoints,
            "ports": [servers.port()],
        }));
    };
    // `addressType` is immutable.
    if *objects::read::<EndpointSlice>(found).address_type != *servers.family() {
        return Step::Delete;
    }
    changed(found, |wanted| {
        label(wanted, labels);
        wanted.insert("endpoints".to_owned(), endpoints.into());
        wanted.insert("ports".to_owned(), json!([servers.port()]));
    })
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EndpointSlice {
    address_type: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ServiceCidrSpec {
    cidrs: List<Box<str>>,
}

/// Whether a ServiceCIDR has these ranges, in any order.
pub fn has_ranges(found: &Json, ranges: &[String]) -> bool {
    let Spec { spec: ServiceCidrSpec { cidrs } } = objects::read(found);
    let own: BTreeSet<&str> = cidrs.iter().map(|range| &**range).collect();
    own == ranges.iter().map(String::as_str).collect()
}

/// Plans the ServiceCIDR with the condition `Ready`. One with other ranges is replaced only at the start of a
/// master. Later it belongs to another master, which would replace it again.
pub fn ranges(found: Option<&Json>, ranges: &[String], at_start: bool, now: Timestamp) -> Step {
    let Some(found) = found else {
        return Step::Create(json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "ServiceCIDR",
            "metadata": {"name": NAME},
            "spec": {"cidrs": ranges},
        }));
    };
    // The ranges are immutable.
    if !has_ranges(found, ranges) {
        return if at_start { Step::Delete } else { Step::Nothing };
    }
    let Conditioned { status, .. } = objects::read(found);
    if status.conditions.of_type(READY).is_some_and(Condition::is_true) {
        return Step::Nothing;
    }
    let mut updated = found.clone();
    let condition = json!({
        "type": READY, "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": api::time::seconds(now),
    });
    updated.insert("status".to_owned(), json!({"conditions": [condition]}));
    Step::UpdateStatus(updated)
}

fn label(object: &mut Json, labels: Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.insert("labels".to_owned(), labels);
    }
}

fn changed(found: &Json, change: impl FnOnce(&mut Json)) -> Step {
    let mut wanted = found.clone();
    change(&mut wanted);
    if wanted == *found { Step::Nothing } else { Step::Update(wanted) }
}

#[cfg(test)]
mod tests {
    //! Tests of objects that are created, repaired and kept.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn servers(service: &str, masters: &[&str]) -> ApiServers {
        let masters = masters.iter().map(|ip| ip.parse().unwrap()).collect();
        ApiServers { service: service.parse().unwrap(), port: 6443, masters }
    }

    /// The object that is created if none exists.
    fn made(plan: impl Fn(Option<&Json>) -> Step) -> Value {
        match plan(None) {
            Step::Create(object) => object,
            other => panic!("{other:?}"),
        }
    }

    type Plan = fn(Option<&Json>, &ApiServers) -> Step;

    #[test]
    fn created_objects_are_kept_and_edited_ones_are_repaired() {
        let servers = servers("10.96.0.1", &["192.0.2.8", "192.0.2.7"]);
        for (plan, field, edit) in [
            (service as Plan, "/spec/ports/0/targetPort", json!(8443)),
            (endpoints, "/subsets/0/addresses", json!([{"ip": "192.0.2.9"}])),
            (endpoints, "/subsets/0/ports/0/port", json!(8443)),
            (endpoints, "/metadata/labels", json!({"a": "b"})),
            (slice, "/endpoints/0/addresses", json!(["192.0.2.9"])),
            (slice, "/ports/0/port", json!(8443)),
            (slice, "/metadata/labels", json!(null)),
        ] {
            let right = made(|found| plan(found, &servers));
            assert_eq!(plan(right.as_object(), &servers), Step::Nothing);
            let mut wrong = right.clone();
            *wrong.pointer_mut(field).unwrap() = edit;
            assert_eq!(
                plan(wrong.as_object(), &servers),
                Step::Update(right.as_object().unwrap().clone()),
                "{field}"
            );
        }
    }

    #[test]
    fn addresses_are_sorted_usable_and_of_the_family_of_the_service() {
        for (service, masters, family, updated) in [
            (
                "10.96.0.1",
                &["192.0.2.8", "192.0.2.7", "fd00::7"][..],
                "IPv4",
                &["192.0.2.7", "192.0.2.8"][..],
            ),
            ("fd00::1", &["192.0.2.8", "fd00::7"], "IPv6", &["fd00::7"]),
            ("10.96.0.1", &["127.0.0.1"], "IPv4", &[]),
        ] {
            let servers = servers(service, masters);
            let slice = made(|found| slice(found, &servers));
            assert_eq!(slice["addressType"], family);
            let all: Vec<&Value> =
                slice["endpoints"].as_array().unwrap().iter().map(|it| &it["addresses"][0]).collect();
            assert_eq!(all, updated);
            let endpoints = made(|found| endpoints(found, &servers));
            let count = endpoints["subsets"][0]["addresses"].as_array().map_or(0, Vec::len);
            assert_eq!((count, endpoints["subsets"].is_null()), (updated.len(), updated.is_empty()));
        }
    }

    #[test]
    fn the_service_cidr_is_replaced_at_the_start_if_its_ranges_differ() {
        let now: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
        let (old, new) =
            (vec!["10.96.0.0/12".to_owned()], vec!["10.0.0.0/16".to_owned(), "fd00::/112".to_owned()]);
        let mut found = made(|found| ranges(found, &new, true, now)).as_object().unwrap().clone();
        assert_eq!(found["spec"]["cidrs"], json!(["10.0.0.0/16", "fd00::/112"]));
        assert_eq!(ranges(Some(&found), &old, true, now), Step::Delete);
        // Another master has other CIDRs. Without this rule the two masters would delete each other's objects endlessly.
        assert_eq!(ranges(Some(&found), &old, false, now), Step::Nothing);
        let turned: Vec<String> = new.iter().rev().cloned().collect();
        assert!(has_ranges(&found, &turned) && !has_ranges(&found, &new[..1]) && !has_ranges(&found, &old));
        let Step::UpdateStatus(updated) = ranges(Some(&found), &new, false, now) else {
            panic!("no status update")
        };
        let condition = &updated["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["status"]), (&json!("Ready"), &json!("True")));
        assert_eq!(condition["lastTransitionTime"], "2026-06-01T12:00:00Z");
        assert_eq!(ranges(Some(&updated), &new, true, now), Step::Nothing);
        found.insert("status".to_owned(), json!({"conditions": [{"type": "Ready", "status": "False"}]}));
        assert_eq!(ranges(Some(&found), &new, true, now), Step::UpdateStatus(updated));
    }

    #[test]
    fn a_slice_of_another_family_is_replaced_and_the_cluster_ip_stays() {
        let (old, new) = (servers("10.96.0.1", &["192.0.2.7"]), servers("fd00::1", &["fd00::7"]));
        assert_eq!(slice(made(|found| slice(found, &old)).as_object(), &new), Step::Delete);
        assert_eq!(service(made(|found| service(found, &old)).as_object(), &new), Step::Nothing);
    }
}
