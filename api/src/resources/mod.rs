//! Resource requests and limits of a whole Pod.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use serde_json::{Map, Value};

use crate::quantity::Quantity;

/// Quantities by resource name: `cpu` in cores, `memory` in bytes.
pub type ResourceList = BTreeMap<String, Quantity>;

/// The requests of a Pod, as the stock scheduler calculates them. They are the larger of two amounts: all
/// containers with all sidecars, or one init container with the sidecars before it. Pod-level requests override the
/// sums, and the overhead is added. Invalid quantities are ignored.
pub fn pod_requests(spec: &PodSpec) -> ResourceList {
    let mut total = together(spec, |resources| resources.requests.as_ref());
    total.extend(list(spec.resources.as_ref().and_then(|resources| resources.requests.as_ref())));
    add(&mut total, &list(spec.overhead.as_ref()));
    total
}

/// The limits of a Pod, calculated like [`pod_requests`]. The overhead is added only to existing limits.
pub fn pod_limits(spec: &PodSpec) -> ResourceList {
    let mut total = together(spec, |resources| resources.limits.as_ref());
    total.extend(list(spec.resources.as_ref().and_then(|resources| resources.limits.as_ref())));
    for (name, overhead) in list(spec.overhead.as_ref()) {
        total.entry(name).and_modify(|limit| *limit = limit.plus(overhead));
    }
    total
}

/// Parses a resource list; invalid quantities are left out.
pub fn list(texts: Option<&BTreeMap<String, Text>>) -> ResourceList {
    let amounts = texts.into_iter().flatten();
    amounts.filter_map(|(name, text)| Some((name.clone(), Quantity::of(text).ok()?))).collect()
}

/// True for an extended resource, as in the stock `IsExtendedResourceName`: a name with a domain outside of Kubernetes.
pub fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

/// True for a restartable init container.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

type Part = fn(&ResourceRequirements) -> Option<&BTreeMap<String, Text>>;

fn together(spec: &PodSpec, part: Part) -> ResourceList {
    let of = |container: &Container| list(container.resources.as_ref().and_then(part));
    let mut running = ResourceList::new();
    for container in &spec.containers {
        add(&mut running, &of(container));
    }
    let mut sidecars = ResourceList::new();
    let mut most = ResourceList::new();
    for container in spec.init_containers.iter().flatten() {
        let own = of(container);
        if is_sidecar(container) {
            add(&mut running, &own);
            add(&mut sidecars, &own);
            raise(&mut most, &sidecars);
        } else {
            let mut moment = own;
            add(&mut moment, &sidecars);
            raise(&mut most, &moment);
        }
    }
    raise(&mut running, &most);
    running
}

fn add(total: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        total.entry(name.clone()).and_modify(|sum| *sum = sum.plus(*amount)).or_insert(*amount);
    }
}

fn raise(total: &mut ResourceList, floor: &ResourceList) {
    for (name, amount) in floor {
        total.entry(name.clone()).and_modify(|most| *most = (*most).max(*amount)).or_insert(*amount);
    }
}

/// Returns a spec with the containers' resources, the pod-level resources and the overhead; all other fields are
/// empty.
pub fn resources_spec(spec: &Map<String, Value>) -> PodSpec {
    let inits = containers(spec.get("initContainers"));
    PodSpec {
        containers: containers(spec.get("containers")),
        init_containers: (!inits.is_empty()).then_some(inits),
        overhead: amounts(spec.get("overhead")),
        resources: spec.get("resources").and_then(resources),
        ..PodSpec::default()
    }
}

fn containers(list: Option<&Value>) -> Vec<Container> {
    let text = |of: &Value, field: &str| of.get(field).and_then(Value::as_str).map(str::to_owned);
    let read = |container: &Value| Container {
        name: text(container, "name").unwrap_or_default(),
        restart_policy: text(container, "restartPolicy"),
        resources: container.get("resources").and_then(resources),
        ..Container::default()
    };
    list.and_then(Value::as_array).into_iter().flatten().map(read).collect()
}

fn resources(value: &Value) -> Option<ResourceRequirements> {
    let of = value.as_object()?;
    Some(ResourceRequirements {
        requests: amounts(of.get("requests")),
        limits: amounts(of.get("limits")),
        ..ResourceRequirements::default()
    })
}

/// Parses quantities, which clients may also write as numbers.
fn amounts(value: Option<&Value>) -> Option<BTreeMap<String, Text>> {
    let read = |(name, amount): (&String, &Value)| match amount {
        Value::String(text) => Some((name.clone(), Text(text.clone()))),
        Value::Number(number) => Some((name.clone(), Text(number.to_string()))),
        _ => None,
    };
    Some(value?.as_object()?.iter().filter_map(read).collect())
}
