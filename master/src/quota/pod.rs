//! Computes the quota usage of pods, and matches quota scopes.

use std::collections::BTreeMap;

use api::qos::{self, QosClass};
use api::quantity::{Format, Quantity};
use api::resources::{pod_limits, pod_requests};
use jiff::{SignedDuration, Timestamp};

use super::Amounts;
use crate::objects::Pod;
use crate::objects::pod::PodSpec;
use crate::objects::quota::ScopeRequirement;
use crate::objects::resources::quantities;

/// The quota resources that pods use.
const POD_RESOURCES: &[&str] = &[
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
/// Resources that every container must specify if the quota limits them. The stock rule covers only these.
const REQUIRED_RESOURCES: &[&str] =
    &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Whether pods may use this quota resource.
pub fn is_counted(name: &str) -> bool {
    POD_RESOURCES.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        // Extended resources: `requests.example.com/gpu`.
        || name.strip_prefix("requests.").is_some_and(|rest| rest.contains('/'))
}

/// The usage of a pod. A terminated pod has none.
pub fn usage(pod: &Pod, now: Timestamp) -> Amounts {
    if !is_charged(pod, now) {
        return Amounts::new();
    }
    let spec = pod.spec.resources_only();
    let mut usage = named(&pod_requests(&spec), &pod_limits(&spec));
    usage.insert("pods".to_owned(), Quantity::from_units(1, Format::DecimalSi));
    usage
}

/// Requests and limits under their quota resource names.
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

/// Required resources that containers do not specify, with the container names.
pub fn missing_requests(pod: &PodSpec, hard: &Amounts) -> BTreeMap<String, Vec<String>> {
    let mut missing = BTreeMap::<String, Vec<String>>::new();
    for container in pod.containers.iter().chain(&pod.init_containers) {
        let resources = &container.resources;
        let stated = named(&quantities(&resources.requests), &quantities(&resources.limits));
        for name in
            REQUIRED_RESOURCES.iter().filter(|name| hard.contains_key(**name) && !stated.contains_key(**name))
        {
            missing.entry((*name).to_owned()).or_default().push(container.name.to_string());
        }
    }
    for containers in missing.values_mut() {
        containers.sort();
        containers.dedup();
    }
    missing
}

/// Whether a scope selects the pod.
pub fn is_in_scope(scope: &ScopeRequirement, pod: &PodSpec) -> bool {
    let is_best_effort = || qos::class(&pod.resources_only()) == QosClass::BestEffort;
    let ends = || pod.active_deadline_seconds.is_some();
    match &*scope.scope_name {
        "Terminating" => ends(),
        "NotTerminating" => !ends(),
        "BestEffort" => is_best_effort(),
        "NotBestEffort" => !is_best_effort(),
        "PriorityClass" => {
            let class = &pod.priority_class_name;
            let is_listed = || scope.values.contains(class);
            match &*scope.operator {
                "Exists" => !class.is_empty(),
                "DoesNotExist" => class.is_empty(),
                "In" => !class.is_empty() && is_listed(),
                "NotIn" => !is_listed(),
                _ => false,
            }
        }
        "CrossNamespacePodAffinity" => crosses_namespaces(pod),
        _ => false,
    }
}

/// Whether a pod counts. A terminated pod does not, nor does a pod long after its deletion deadline.
fn is_charged(pod: &Pod, now: Timestamp) -> bool {
    if pod.status.is_terminal() {
        return false;
    }
    let metadata = &pod.metadata;
    let (Some(ends), Some(grace)) = (metadata.deletion_timestamp, metadata.deletion_grace_period_seconds)
    else {
        return true;
    };
    // An unreachable node keeps its pods. They count until twice their grace period.
    now.duration_since(ends) <= SignedDuration::from_secs(grace)
}

/// Whether a pod affinity refers to other namespaces.
fn crosses_namespaces(pod: &PodSpec) -> bool {
    let Some(affinity) = &pod.affinity else { return false };
    [&affinity.pod_affinity, &affinity.pod_anti_affinity].into_iter().any(|side| {
        let preferred = side.preferred.iter().map(|weighted| &weighted.pod_affinity_term);
        let mut terms = side.required.iter().chain(preferred);
        terms.any(|term| !term.namespaces.is_empty() || term.namespace_selector.is_some())
    })
}
