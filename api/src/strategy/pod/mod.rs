//! Pods: what a new one starts as, and what may be changed of one that runs.

mod ephemeral;
mod finalize;
mod gates;
mod resize;
mod status;
mod update;

use serde_json::Value;

use super::causes::Causes;
use super::fill::{at, fields_at, set, text};
use super::place::Place;
use super::rules::{NONE, Rules};
use super::{Json, Part, template};
use crate::equal::equal;
use crate::qos;
use crate::resources::slim_spec;
use crate::validate::APPARMOR_PREFIX;

pub(super) static RULES: Rules = Rules {
    default: template::default_pod,
    prepare,
    check: |pod, causes| template::check_pod(pod, "", pod.fields().unwrap_or(&Json::new()), causes),
    is_checked,
    create: |pod, causes| {
        causes.absent(&pod.at("spec.ephemeralContainers"), "cannot be set on create");
    },
    update: update::check,
    status: status::check,
    sub: |part, new, old, causes| match part {
        "ephemeralcontainers" => ephemeral::check(new, old, causes),
        "finalize" => finalize::check(new, old, causes),
        "resize" => resize::check(new, old, causes),
        _ => {}
    },
    warn,
    ..NONE
};

fn prepare(pod: &mut Json, before: Option<&Json>, part: &Part<'_>) {
    match (part, before) {
        (Part::Main, None) => begin(pod),
        (Part::Main, Some(before)) => {
            set(pod, "status", before.get("status").cloned());
            gates::follow(pod, before);
        }
        (Part::Status, Some(before)) => {
            if text(pod, "status.qosClass").is_empty() {
                set(pod, "status.qosClass", at(before, "status.qosClass").cloned());
            }
        }
        (Part::Sub("ephemeralcontainers"), Some(before)) => ephemeral::prepare(pod, before),
        (Part::Sub("finalize"), Some(before)) => finalize::prepare(pod, before),
        (Part::Sub("resize"), Some(before)) => resize::prepare(pod, before),
        (Part::Status | Part::Sub(_), _) => {}
    }
}

/// True when a spec is as it was, and so are the annotations that speak of its containers.
fn is_checked(new: &Place<'_, '_>, old: &Place<'_, '_>) -> bool {
    let (annotations, before) = (&new.at("metadata.annotations"), &old.at("metadata.annotations"));
    let mut profiles = annotations.entries().filter(|(key, _)| key.starts_with(APPARMOR_PREFIX));
    equal(new.at("spec").value(), old.at("spec").value())
        && profiles.all(|(key, profile)| before.key(key).value() == profile.value())
}

/// The status of a new pod: nobody has looked at it yet.
fn begin(pod: &mut Json) {
    pod.remove("status");
    let class = qos_class(pod);
    let gated = gates::condition(pod);
    let Some(status) = fields_at(pod, "status") else { return };
    status.insert("phase".to_owned(), "Pending".into());
    if let Some(gated) = gated {
        status.insert("conditions".to_owned(), Value::Array(vec![gated]));
    }
    status.insert("qosClass".to_owned(), class.into());
}

fn qos_class(pod: &Json) -> &'static str {
    let spec = at(pod, "spec").and_then(Value::as_object);
    qos::class(&spec.map(slim_spec).unwrap_or_default()).as_str()
}

/// Labels that nodes no longer have; a pod that asks for one waits forever.
const OLD_NODE_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

fn warn(pod: &Json) -> Vec<String> {
    let root = Place::root(pod);
    let mut warnings = Vec::new();
    for (old, new) in OLD_NODE_LABELS {
        let selector = root.at("spec.nodeSelector");
        if !selector.key(old).is_absent() {
            warnings.push(format!("spec.nodeSelector[{old}]: deprecated; use \"{new}\" instead"));
        }
    }
    let spec = root.at("spec");
    for list in ["initContainers", "containers"] {
        for container in spec.at(list).items() {
            repeated_names(&container.at("env"), &mut warnings);
        }
    }
    warnings
}

/// A variable that stands twice has the later value.
fn repeated_names(list: &Place<'_, '_>, warnings: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    for item in list.items() {
        let name = item.at("name").text();
        if !seen.insert(name) {
            warnings.push(format!(
                "{}: hides previous definition of \"{name}\", which may be dropped when using apply",
                item.path()
            ));
        }
    }
}

/// What is wrong with a pod that a part was written of, as if it were whole.
fn check_whole(pod: &Place<'_, '_>, causes: &mut Causes) {
    (RULES.check)(pod, causes);
}

#[cfg(test)]
mod tests;
