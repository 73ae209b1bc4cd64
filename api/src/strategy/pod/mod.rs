//! The strategy of Pods.

mod ephemeral;
mod gates;
mod initialize;
mod resize;
mod update;

use serde_json::Value;

use super::causes::Causes;
use super::dotted::{at, fields_at, set, text};
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};
use super::{Json, Part, template};
use crate::equal::equal;
use crate::qos;
use crate::resources::resources_spec;
use crate::validate::APPARMOR_PREFIX;

pub(super) static STRATEGY: KindStrategy = KindStrategy {
    default: template::default_pod,
    prepare,
    check: |pod, causes| template::check_pod(pod, "", pod.fields().unwrap_or(&Json::new()), causes),
    skips_check,
    create: |pod, causes| {
        causes.absent(&pod.at("spec.ephemeralContainers"), "cannot be set on create");
    },
    update: update::check,
    status: check_status,
    subresource: |part, new, old, causes| match part {
        "ephemeralcontainers" => ephemeral::check(new, old, causes),
        "finalize" => initialize::check(new, old, causes),
        "resize" => resize::check(new, old, causes),
        _ => {}
    },
    warn,
    ..NO_OP
};

fn prepare(pod: &mut Json, before: Option<&Json>, part: &Part<'_>) {
    match (part, before) {
        (Part::Main, None) => set_initial_status(pod),
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
        (Part::Sub("finalize"), Some(before)) => initialize::prepare(pod, before),
        (Part::Sub("resize"), Some(before)) => resize::prepare(pod, before),
        (Part::Status | Part::Sub(_), _) => {}
    }
}

/// True if neither the spec nor the AppArmor annotations changed, so that no validation is necessary.
fn skips_check(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>) -> bool {
    let (annotations, before) = (&new.at("metadata.annotations"), &old.at("metadata.annotations"));
    let mut profiles = annotations.entries().filter(|(key, _)| key.starts_with(APPARMOR_PREFIX));
    equal(new.at("spec").value(), old.at("spec").value())
        && profiles.all(|(key, profile)| before.key(key).value() == profile.value())
}

/// Sets the initial status of a new pod.
fn set_initial_status(pod: &mut Json) {
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
    qos::class(&spec.map(resources_spec).unwrap_or_default()).as_str()
}

/// Deprecated node labels. No node has them, so a pod that selects one stays pending.
const OLD_NODE_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

fn warn(pod: &Json) -> Vec<String> {
    let root = FieldValue::root(pod);
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
            warn_duplicate_names(&container.at("env"), &mut warnings);
        }
    }
    warnings
}

/// Warns about duplicate environment variables. The last one of a name wins.
fn warn_duplicate_names(list: &FieldValue<'_, '_>, warnings: &mut Vec<String>) {
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

/// Validates the whole pod after a write of a subresource.
fn check_whole(pod: &FieldValue<'_, '_>, causes: &mut Causes) {
    (STRATEGY.check)(pod, causes);
}

/// Validates the subresource `pods/status`. Rejects the restart of a container that terminated for good.
fn check_status(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    causes.subdomain(&new.at("status.nominatedNodeName"));
    let containers = &new.at("status.containerStatuses");
    let spec = new.at("spec");
    let policy = spec.at("restartPolicy").text();
    for was in old.at("status.containerStatuses").items() {
        let name = was.at("name").text();
        let exit_code = was.at("state.terminated.exitCode").number();
        let for_good = match policy {
            "Never" => !was.at("state.terminated").is_absent(),
            "OnFailure" => exit_code == Some(0),
            _ => false,
        };
        let restarts_by_itself = spec.at("containers").items().any(|container| {
            container.at("name").text() == name && !container.at("restartPolicy").is_empty()
        });
        let now = containers.items().find(|status| status.at("name").text() == name);
        if let Some(now) =
            now.filter(|now| for_good && !restarts_by_itself && now.at("state.terminated").is_absent())
        {
            causes.forbidden(&now.at("state"), "may not be transitioned to non-terminated state");
        }
    }
}

#[cfg(test)]
mod tests;
