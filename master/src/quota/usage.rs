//! Computes the quota usage of an object by its kind.

use api::quantity::{Format, Quantity};
use jiff::Timestamp;

use super::{Amounts, Json, pod};
use crate::objects::resources::quantities;
use crate::objects::service::ServiceSpec;
use crate::objects::volume::PersistentVolumeClaimSpec;
use crate::objects::{self, Spec};

/// Resources that also count under their plain name, without `count/`.
const OBJECT_COUNT_ALIASES: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
/// The text between a storage class name and the counted resource.
const STORAGE_CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";

/// The usage of an object of a resource, such as `pods` or `deployments.apps`.
pub fn usage(resource: &str, object: &Json, now: Timestamp) -> Amounts {
    let one = Quantity::from_units(1, Format::DecimalSi);
    let mut usage = Amounts::from([(format!("count/{resource}"), one)]);
    if OBJECT_COUNT_ALIASES.contains(&resource) {
        usage.insert(resource.to_owned(), one);
    }
    match resource {
        "pods" => usage.extend(pod::usage(&objects::read(object), now)),
        "services" => usage.extend(of_service(&objects::read::<Spec<ServiceSpec>>(object).spec)),
        "persistentvolumeclaims" => {
            usage.extend(of_claim(&objects::read::<Spec<PersistentVolumeClaimSpec>>(object).spec))
        }
        _ => {}
    }
    usage
}

/// The quota resources in `hard` that objects of a resource use.
pub fn names(resource: &str, hard: &Amounts) -> Vec<String> {
    let is_own = |name: &str| {
        name == format!("count/{resource}")
            || (OBJECT_COUNT_ALIASES.contains(&resource) && name == resource)
            || match resource {
                "pods" => pod::is_counted(name),
                "services" => matches!(name, "services.nodeports" | "services.loadbalancers"),
                "persistentvolumeclaims" => name == "requests.storage" || name.contains(STORAGE_CLASS_INFIX),
                _ => false,
            }
    };
    hard.keys().filter(|name| is_own(name)).cloned().collect()
}

fn of_service(service: &ServiceSpec) -> Amounts {
    let ports = &service.ports;
    let numbered = ports.iter().filter(|port| port.node_port != 0).count();
    let are_given = service.allocate_load_balancer_node_ports.unwrap_or(true);
    let count =
        |count: usize| Quantity::from_units(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi);
    let (balancers, nodeports) = match &*service.r#type {
        "NodePort" => (0, ports.len()),
        "LoadBalancer" if are_given => (1, ports.len()),
        "LoadBalancer" => (1, numbered),
        _ => (0, 0),
    };
    Amounts::from([
        ("services.loadbalancers".to_owned(), count(balancers)),
        ("services.nodeports".to_owned(), count(nodeports)),
    ])
}

fn of_claim(claim: &PersistentVolumeClaimSpec) -> Amounts {
    let mut usage = Amounts::new();
    let storage = quantities(&claim.resources.requests).get("storage").copied();
    if let Some(storage) = storage {
        usage.insert("requests.storage".to_owned(), storage);
    }
    let class = claim.storage_class_name.as_deref();
    if let Some(class) = class.filter(|class| !class.is_empty()) {
        let one = Quantity::from_units(1, Format::DecimalSi);
        usage.insert(format!("{class}{STORAGE_CLASS_INFIX}persistentvolumeclaims"), one);
        if let Some(storage) = storage {
            usage.insert(format!("{class}{STORAGE_CLASS_INFIX}requests.storage"), storage);
        }
    }
    usage
}
