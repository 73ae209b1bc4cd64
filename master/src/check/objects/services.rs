//! Services with a selector and nobody behind it. Pure.

use std::collections::{HashMap, HashSet};

use apiserver::selector;
use serde_json::Value;

use super::field::{list, text};
use super::{PATIENCE, World, pods};
use crate::check::finding::{Finding, Subject, counted};
use crate::controllers::Object;

/// The label by which a slice says whose it is.
const OF_SERVICE: &str = "kubernetes.io/service-name";

/// What is wrong with services.
pub fn findings(world: &World) -> Vec<Finding> {
    let mut served: HashSet<(&str, &str)> = HashSet::new();
    for slice in world.of("endpointslices") {
        let service = pods::labels(slice).and_then(|labels| labels.get(OF_SERVICE)).and_then(Value::as_str);
        if let Some(service) = service.filter(|_| list(slice, "/endpoints").iter().any(takes_requests)) {
            served.insert((&slice.namespace, service));
        }
    }
    let mut by_namespace: HashMap<&str, Vec<&Object>> = HashMap::new();
    for pod in world.of("pods") {
        by_namespace.entry(&pod.namespace).or_default().push(pod);
    }
    let unserved = world.of("services").iter().filter(|service| {
        !served.contains(&(service.namespace.as_str(), service.name.as_str()))
            && text(service, "/spec/type") != "ExternalName"
    });
    unserved
        .filter_map(|service| {
            let beside = by_namespace.get(service.namespace.as_str()).map_or(&[][..], Vec::as_slice);
            nobody(service, beside, world.since(&service.created) > PATIENCE)
        })
        .collect()
}

/// An endpoint that says nothing of itself is ready.
fn takes_requests(endpoint: &Value) -> bool {
    endpoint.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true)
}

/// Why nobody is behind it; pods and controllers get their time first.
fn nobody(service: &Object, beside: &[&Object], is_late: bool) -> Option<Finding> {
    let selector = service.kept("/spec/selector")?;
    if selector.as_object().is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    let empty = serde_json::Map::new();
    let chosen: Vec<&&Object> = beside
        .iter()
        .filter(|pod| selector::matches_selector(selector, pods::labels(pod).unwrap_or(&empty)))
        .collect();
    let ready = chosen.iter().filter(|pod| pods::is_ready(pod)).count();
    let labels = selector::text(selector);
    let subject = Subject::of("Service", service);
    let what = "has nobody who answers";
    if chosen.is_empty() {
        let remedy = "run pods with these labels, or correct the service's selector";
        return Some(
            Finding::warning(subject, what, remedy).because(format!("no pod has the labels {labels}")),
        );
    }
    is_late.then(|| {
        if ready == 0 {
            let remedy = format!(
                "see what keeps them from being ready: `kubectl get pods -n {} -l {labels}`",
                service.namespace
            );
            let cause =
                format!("none of the {} with the labels {labels} is ready", counted(chosen.len(), "pod"));
            Finding::problem(subject, what, remedy).because(cause)
        } else {
            let remedy = "look whether the controllers of endpoints run (`--controllers`, the master's log)";
            let cause = format!("{} ready, and no endpoints were made of them", counted(ready, "pod"));
            Finding::problem(subject, what, remedy).because(cause)
        }
    })
}
