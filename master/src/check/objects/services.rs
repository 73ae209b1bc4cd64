//! Checks services with a selector but without ready endpoints. Pure.

use std::collections::{HashMap, HashSet};

use super::kinds::{Endpoint, Pod, Service};
use super::{PATIENCE, World, pods};
use crate::check::finding::{Finding, Subject, counted};

/// Label of an EndpointSlice that names its Service.
const OF_SERVICE: &str = "kubernetes.io/service-name";

/// Findings for all services.
pub fn findings(world: &World) -> Vec<Finding> {
    let mut served: HashSet<(&str, &str)> = HashSet::new();
    for slice in &world.lists.endpoint_slices {
        let service = slice.metadata.labels.get(OF_SERVICE);
        if let Some(service) = service.filter(|_| slice.endpoints.iter().any(takes_requests)) {
            served.insert((&*slice.metadata.namespace, service));
        }
    }
    let mut by_namespace: HashMap<&str, Vec<&Pod>> = HashMap::new();
    for pod in &world.lists.pods {
        by_namespace.entry(&pod.metadata.namespace).or_default().push(pod);
    }
    let unserved = world.lists.services.iter().filter(|service| {
        let name = (&*service.metadata.namespace, &*service.metadata.name);
        !served.contains(&name) && &*service.spec.r#type != "ExternalName"
    });
    unserved
        .filter_map(|service| {
            let beside = by_namespace.get(&*service.metadata.namespace).map_or(&[][..], Vec::as_slice);
            missing_endpoints(service, beside, world.since(service.metadata.creation_timestamp) > PATIENCE)
        })
        .collect()
}

/// True unless the endpoint is reported as not ready.
fn takes_requests(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready.unwrap_or(true)
}

/// The finding for a service without endpoints. Pods and controllers get a grace period.
fn missing_endpoints(service: &Service, beside: &[&Pod], is_late: bool) -> Option<Finding> {
    let selector = &service.spec.selector;
    if selector.is_empty() {
        return None;
    }
    let is_chosen =
        |pod: &&&Pod| selector.iter().all(|(key, value)| pod.metadata.labels.get(key) == Some(value));
    let chosen: Vec<&&Pod> = beside.iter().filter(is_chosen).collect();
    let ready = chosen.iter().filter(|pod| pods::is_ready(pod)).count();
    let labels = selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
    let subject = Subject::of("Service", &service.metadata);
    let what = "has no ready endpoints";
    if chosen.is_empty() {
        let remedy = "run pods with these labels, or correct the service's selector";
        return Some(
            Finding::warning(subject, what, remedy).because(format!("no pod matches the selector {labels}")),
        );
    }
    is_late.then(|| {
        if ready == 0 {
            let remedy = format!(
                "see why they are not ready: `kubectl get pods -n {} -l {labels}`",
                service.metadata.namespace
            );
            let cause = format!("none of the {} that match {labels} is ready", counted(chosen.len(), "pod"));
            Finding::problem(subject, what, remedy).because(cause)
        } else {
            let remedy = "check that the endpoint controllers run (`--controllers`, the master's log)";
            let cause = format!("{} ready, but without endpoints", counted(ready, "pod"));
            Finding::problem(subject, what, remedy).because(cause)
        }
    })
}
