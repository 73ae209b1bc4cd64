//! What a service keeps of what it was given, and what it gives back when its type has no use for it.

use serde_json::Value;

use crate::strategy::fill::{at, each, fill, set, text};
use crate::strategy::{Json, Part};

/// What only services that are reached from outside the cluster have.
const OUTSIDE: [&str; 2] = ["spec.externalTrafficPolicy", "spec.healthCheckNodePort"];
/// What only services behind a balancer of the cloud have.
const BALANCED: [&str; 2] = ["spec.allocateLoadBalancerNodePorts", "spec.loadBalancerClass"];
/// What a service that is but a name does not have.
const ADDRESSES: [&str; 4] = ["spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"];

/// Addresses and ports that were given out stay where a client is silent about them; what a client has left as it was
/// goes when the type changes to one that has no use for it.
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
    // The first of the list and the single one are the same fact.
    let first = text(service, "spec.clusterIP").to_owned();
    if !first.is_empty() && at(service, "spec.clusterIPs").is_none() && !is_name(service) {
        set(service, "spec.clusterIPs", Some(Value::Array(vec![first.into()])));
    }
}

fn is_name(service: &Json) -> bool {
    text(service, "spec.type") == "ExternalName"
}

fn is_outside(service: &Json) -> bool {
    matches!(text(service, "spec.type"), "NodePort" | "LoadBalancer")
}

fn is_balanced(service: &Json) -> bool {
    text(service, "spec.type") == "LoadBalancer"
}

fn addresses(service: &mut Json, before: &Json) {
    if is_name(service) {
        return drop_unchanged(service, before, &ADDRESSES);
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
    // Whoever wants one family from now on gives the second back by saying no more than that.
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
    if is_outside(service) {
        for port in each(service, "spec.ports").filter(|port| !port.contains_key("nodePort")) {
            let is_same =
                |old: &&Value| ["port", "protocol"].iter().all(|field| old.get(field) == port.get(*field));
            if let Some(number) = old.iter().find(is_same).and_then(|old| old.get("nodePort")) {
                port.insert("nodePort".to_owned(), number.clone());
            }
        }
    } else if is_outside(before) {
        for port in each(service, "spec.ports") {
            if old.iter().any(|old| old.get("nodePort") == port.get("nodePort")) {
                port.remove("nodePort");
            }
        }
        drop_unchanged(service, before, &OUTSIDE);
    }
    if is_balanced(service) && at(service, OUTSIDE[1]).is_none() {
        set(service, OUTSIDE[1], at(before, OUTSIDE[1]).cloned());
    } else if !is_balanced(service) && is_balanced(before) {
        drop_unchanged(service, before, &BALANCED);
    }
}

fn drop_unchanged(service: &mut Json, before: &Json, fields: &[&str]) {
    for field in fields {
        if at(service, field) == at(before, field) {
            set(service, field, None);
        }
    }
}
