//! Keeps allocated addresses and ports on updates of Services, and drops them if the type changes.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::dotted::{at, each, fill, set, text};
use crate::strategy::{Json, Part};

/// Fields of Services that are reachable from outside of the cluster.
const EXTERNAL_FIELDS: [&str; 2] = ["spec.externalTrafficPolicy", "spec.healthCheckNodePort"];
/// Fields of Services with a load balancer.
const LOAD_BALANCER_FIELDS: [&str; 2] = ["spec.allocateLoadBalancerNodePorts", "spec.loadBalancerClass"];
/// Fields that a Service of type `ExternalName` does not have.
const ADDRESS_FIELDS: [&str; 4] =
    ["spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"];

/// Restores allocated addresses and ports that the client omits. Drops unchanged fields that the new type does not use.
pub(super) fn prepare(service: &mut Json, before: Option<&Json>, part: &Part<'_>) {
    if *part != Part::Main {
        return;
    }
    match before {
        None => fill(service, "status.loadBalancer", Value::Object(Json::new())),
        Some(before) => {
            addresses(service, before);
            ports(service, before);
        }
    }
    // `clusterIP` is the first element of `clusterIPs`.
    let first = text(service, "spec.clusterIP").to_owned();
    if !first.is_empty() && at(service, "spec.clusterIPs").is_none() && !is_external_name(service) {
        set(service, "spec.clusterIPs", Some(Value::Array(vec![first.into()])));
    }
}

fn is_external_name(service: &Json) -> bool {
    text(service, "spec.type") == "ExternalName"
}

fn is_external(service: &Json) -> bool {
    matches!(text(service, "spec.type"), "NodePort" | "LoadBalancer")
}

fn is_load_balancer(service: &Json) -> bool {
    text(service, "spec.type") == "LoadBalancer"
}

fn addresses(service: &mut Json, before: &Json) {
    if is_external_name(service) {
        return drop_unchanged(service, before, &ADDRESS_FIELDS);
    }
    if text(service, "spec.clusterIP").is_empty() {
        for field in ["spec.clusterIP", "spec.clusterIPs"] {
            set(service, field, at(before, field).cloned());
        }
    }
    for field in ["spec.ipFamilies", "spec.ipFamilyPolicy"] {
        if at(service, field).is_none() {
            set(service, field, at(before, field).cloned());
        }
    }
    // A change to `SingleStack` drops the second family and its address, if the client left both unchanged.
    let is_single = |service: &Json| text(service, "spec.ipFamilyPolicy") == "SingleStack";
    if is_single(service) && !is_single(before) {
        for field in ["spec.clusterIPs", "spec.ipFamilies"] {
            let same = at(service, field).filter(|list| Some(*list) == at(before, field));
            if let Some(first) = same.and_then(|list| list.get(0)).cloned() {
                set(service, field, Some(Value::Array(vec![first])));
            }
        }
    }
}

fn ports(service: &mut Json, before: &Json) {
    let old = at(before, "spec.ports").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if is_external(service) {
        let name = |port: Option<&Value>, protocol: Option<&Value>| {
            (port.and_then(Value::as_u64), protocol.and_then(Value::as_str).map(str::to_owned))
        };
        // For duplicate ports, the first one wins.
        let numbers: HashMap<_, &Value> = (old.iter().rev())
            .filter_map(|port| Some((name(port.get("port"), port.get("protocol")), port.get("nodePort")?)))
            .collect();
        for port in each(service, "spec.ports").filter(|port| !port.contains_key("nodePort")) {
            if let Some(number) = numbers.get(&name(port.get("port"), port.get("protocol"))) {
                port.insert("nodePort".to_owned(), (*number).clone());
            }
        }
    } else if is_external(before) {
        let number = |port: Option<&Value>| port.and_then(Value::as_u64);
        let given: HashSet<_> = old.iter().map(|port| number(port.get("nodePort"))).collect();
        for port in each(service, "spec.ports") {
            if given.contains(&number(port.get("nodePort"))) {
                port.remove("nodePort");
            }
        }
        drop_unchanged(service, before, &EXTERNAL_FIELDS);
    }
    if is_load_balancer(service) && at(service, EXTERNAL_FIELDS[1]).is_none() {
        set(service, EXTERNAL_FIELDS[1], at(before, EXTERNAL_FIELDS[1]).cloned());
    } else if !is_load_balancer(service) && is_load_balancer(before) {
        drop_unchanged(service, before, &LOAD_BALANCER_FIELDS);
    }
}

fn drop_unchanged(service: &mut Json, before: &Json, fields: &[&str]) {
    for field in fields {
        if at(service, field) == at(before, field) {
            set(service, field, None);
        }
    }
}
