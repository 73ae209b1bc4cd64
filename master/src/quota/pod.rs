//! What a pod uses, and which pods a scope means.

use std::collections::BTreeMap;

use api::qos::{self, QosClass};
use api::quantity::{Format, Quantity};
use api::resources::{pod_limits, pod_requests, slim_spec};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Amounts, Json, amounts};

/// What is counted of pods under names of its own.
const COUNTED: &[&str] = &[
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
/// What every container has to state where it is counted; an old mistake of Kubernetes that is kept to these.
const STATED: &[&str] = &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// True for names that pods may count under.
pub fn is_counted(name: &str) -> bool {
    COUNTED.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        // Extended resources: `requests.example.com/gpu`.
        || name.strip_prefix("requests.").is_some_and(|rest| rest.contains('/'))
}

/// What a pod uses beyond being there; nothing once it has come to its end.
pub fn usage(pod: &Json, now: Timestamp) -> Amounts {
    if !is_charged(pod, now) {
        return Amounts::new();
    }
    let spec = spec(pod).map(slim_spec).unwrap_or_default();
    let mut usage = named(&pod_requests(&spec), &pod_limits(&spec));
    usage.insert("pods".to_owned(), Quantity::from_units(1, Format::DecimalSi));
    usage
}

/// Requests and limits under the names that quotas count them by.
fn named(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut named = Amounts::new();
    for (name, amount) in requests {
        match name.as_str() {
            "cpu" | "memory" | "ephemeral-storage" => {
                named.insert(name.clone(), *amount);
                named.insert(format!("requests.{name}"), *amount);
            }
            _ if name.starts_with("hugepages-") => {
                named.insert(name.clone(), *amount);
                named.insert(format!("requests.{name}"), *amount);
            }
            _ => drop(named.insert(format!("requests.{name}"), *amount)),
        }
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            named.insert(format!("limits.{name}"), *amount);
        }
    }
    named
}

/// What is counted and not stated, with the containers that do not state it.
pub fn unsaid(pod: &Json, hard: &Amounts) -> BTreeMap<String, Vec<String>> {
    let mut missing = BTreeMap::<String, Vec<String>>::new();
    let lists = ["containers", "initContainers"].map(|list| spec(pod).and_then(|spec| spec.get(list)));
    for container in lists.into_iter().flatten().filter_map(Value::as_array).flatten() {
        let of = |part: &str| amounts(container.get("resources").and_then(|resources| resources.get(part)));
        let stated = named(&of("requests"), &of("limits"));
        for name in STATED.iter().filter(|name| hard.contains_key(**name) && !stated.contains_key(**name)) {
            let name_of = container.get("name").and_then(Value::as_str).unwrap_or_default();
            missing.entry((*name).to_owned()).or_default().push(name_of.to_owned());
        }
    }
    for containers in missing.values_mut() {
        containers.sort();
        containers.dedup();
    }
    missing
}

/// True when the pod is one that the scope means.
pub fn is_in_scope(scope: &Value, pod: &Json) -> bool {
    let text = |field: &str| scope.get(field).and_then(Value::as_str).unwrap_or_default();
    let is_best_effort =
        || spec(pod).map(slim_spec).is_none_or(|spec| qos::class(&spec) == QosClass::BestEffort);
    let ends = || spec(pod).and_then(|spec| spec.get("activeDeadlineSeconds")).is_some_and(Value::is_number);
    match text("scopeName") {
        "Terminating" => ends(),
        "NotTerminating" => !ends(),
        "BestEffort" => is_best_effort(),
        "NotBestEffort" => !is_best_effort(),
        "PriorityClass" => {
            let class = spec(pod).and_then(|spec| spec.get("priorityClassName")).and_then(Value::as_str);
            let class = class.unwrap_or_default();
            let values = scope.get("values").and_then(Value::as_array);
            let is_listed = || values.into_iter().flatten().any(|value| value == class);
            match text("operator") {
                "Exists" => !class.is_empty(),
                "DoesNotExist" => class.is_empty(),
                "In" => !class.is_empty() && is_listed(),
                "NotIn" => !is_listed(),
                _ => false,
            }
        }
        "CrossNamespacePodAffinity" => reaches_across(pod),
        _ => false,
    }
}

/// True while a pod counts: not once it has ended, nor once it should be gone.
fn is_charged(pod: &Json, now: Timestamp) -> bool {
    let at = |part: &str, field: &str| pod.get(part).and_then(|part| part.get(field));
    if matches!(at("status", "phase").and_then(Value::as_str), Some("Succeeded" | "Failed")) {
        return false;
    }
    let ends = at("metadata", "deletionTimestamp").and_then(Value::as_str);
    let grace = at("metadata", "deletionGracePeriodSeconds").and_then(Value::as_i64);
    let (Some(ends), Some(grace)) = (ends.and_then(|time| time.parse::<Timestamp>().ok()), grace) else {
        return true;
    };
    // A node that does not answer keeps the object; what it takes is charged no longer than its grace twice.
    now.duration_since(ends) <= SignedDuration::from_secs(grace)
}

/// True when an affinity of the pod looks into other namespaces.
fn reaches_across(pod: &Json) -> bool {
    let affinity = spec(pod).and_then(|spec| spec.get("affinity"));
    let kinds = ["podAffinity", "podAntiAffinity"].map(|kind| affinity.and_then(|of| of.get(kind)));
    kinds.into_iter().flatten().any(|kind| {
        let list = |name: &str| kind.get(name).and_then(Value::as_array).into_iter().flatten();
        let weighted = list("preferredDuringSchedulingIgnoredDuringExecution")
            .filter_map(|term| term.get("podAffinityTerm"));
        list("requiredDuringSchedulingIgnoredDuringExecution").chain(weighted).any(|term| {
            let names = term.get("namespaces").and_then(Value::as_array);
            names.is_some_and(|names| !names.is_empty()) || term.get("namespaceSelector").is_some()
        })
    })
}

fn spec(pod: &Json) -> Option<&Json> {
    pod.get("spec").and_then(Value::as_object)
}
