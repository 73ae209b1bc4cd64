//! What an object uses, by its kind.

use api::quantity::{Format, Quantity};
use jiff::Timestamp;
use serde_json::Value;

use super::{Amounts, Json, pod};

/// Kinds that are counted under their plain name as well, without `count/`.
const PLAIN: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
/// What separates a storage class from what of it is counted.
const CLASS: &str = ".storageclass.storage.k8s.io/";

/// What an object of that resource (`pods`, `deployments.apps`) uses.
pub fn usage(resource: &str, object: &Json, now: Timestamp) -> Amounts {
    let one = Quantity::from_units(1, Format::DecimalSi);
    let mut usage = Amounts::from([(format!("count/{resource}"), one)]);
    if PLAIN.contains(&resource) {
        usage.insert(resource.to_owned(), one);
    }
    match resource {
        "pods" => usage.extend(pod::usage(object, now)),
        "services" => usage.extend(of_service(object)),
        "persistentvolumeclaims" => usage.extend(of_claim(object)),
        _ => {}
    }
    usage
}

/// Which of these names objects of that resource may count under.
pub fn names(resource: &str, hard: &Amounts) -> Vec<String> {
    let is_own = |name: &str| {
        name == format!("count/{resource}")
            || (PLAIN.contains(&resource) && name == resource)
            || match resource {
                "pods" => pod::is_counted(name),
                "services" => matches!(name, "services.nodeports" | "services.loadbalancers"),
                "persistentvolumeclaims" => name == "requests.storage" || name.contains(CLASS),
                _ => false,
            }
    };
    hard.keys().filter(|name| is_own(name)).cloned().collect()
}

/// True when the object is one that a scope means; but for pods, no object is in any.
pub fn is_in_scope(scope: &Value, resource: &str, object: &Json) -> bool {
    resource == "pods" && pod::is_in_scope(scope, object)
}

fn spec(object: &Json) -> Option<&Json> {
    object.get("spec").and_then(Value::as_object)
}

fn of_service(service: &Json) -> Amounts {
    let field = |name: &str| spec(service).and_then(|spec| spec.get(name));
    let ports = field("ports").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let numbered = ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0).count();
    let are_given = field("allocateLoadBalancerNodePorts").and_then(Value::as_bool).unwrap_or(true);
    let count =
        |count: usize| Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi);
    let (balancers, nodeports) = match field("type").and_then(Value::as_str) {
        Some("NodePort") => (0, ports.len()),
        Some("LoadBalancer") if are_given => (1, ports.len()),
        Some("LoadBalancer") => (1, numbered),
        _ => (0, 0),
    };
    Amounts::from([
        ("services.loadbalancers".to_owned(), count(balancers)),
        ("services.nodeports".to_owned(), count(nodeports)),
    ])
}

fn of_claim(claim: &Json) -> Amounts {
    let mut usage = Amounts::new();
    let requests = spec(claim).and_then(|spec| spec.get("resources")).and_then(|of| of.get("requests"));
    let storage = super::amounts(requests).get("storage").copied();
    if let Some(storage) = storage {
        usage.insert("requests.storage".to_owned(), storage);
    }
    let class = spec(claim).and_then(|spec| spec.get("storageClassName")).and_then(Value::as_str);
    if let Some(class) = class.filter(|class| !class.is_empty()) {
        let one = Quantity::from_units(1, Format::DecimalSi);
        usage.insert(format!("{class}{CLASS}persistentvolumeclaims"), one);
        if let Some(storage) = storage {
            usage.insert(format!("{class}{CLASS}requests.storage"), storage);
        }
    }
    usage
}
