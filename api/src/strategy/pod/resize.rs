//! The subresource `pods/resize`: changes the resources of running containers.

use serde_json::Value;

use super::{check_whole, qos_class};
use crate::dotted::{at, set};
use crate::strategy::Json;
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;

/// Takes over only the container resources of the request.
pub(super) fn prepare(pod: &mut Json, before: &Json) {
    let sent = pod.clone();
    for part in ["spec", "status"] {
        set(pod, part, before.get(part).cloned());
    }
    for list in ["spec.containers", "spec.initContainers"] {
        for container in crate::dotted::each(pod, list) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let Some(wanted) = named(&sent, list, name) else { continue };
            let resources = wanted.get("resources").cloned();
            set(container, "resources", resources);
        }
    }
}

fn named<'a>(pod: &'a Json, list: &str, name: &str) -> Option<&'a Value> {
    let containers = at(pod, list)?.as_array()?;
    containers.iter().find(|container| container.get("name").and_then(Value::as_str) == Some(name))
}

/// Rejects changes of resources that cannot be resized.
pub(super) fn check(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    check_whole(new, causes);
    for list in ["spec.containers", "spec.initContainers"] {
        for (new, old) in new.at(list).items().zip(old.at(list).items()) {
            if new.at("resources").value() != old.at("resources").value() {
                only_cpu_and_memory(&new.at("resources"), &old.at("resources"), causes);
            }
        }
    }
    let class = |pod: &FieldValue<'_, '_>| pod.fields().map(qos_class);
    if class(new) != class(old) {
        causes.invalid(&new.at("status.qosClass"), "Pod QOS Class may not change as a result of resizing");
    }
}

fn only_cpu_and_memory(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    for part in ["limits", "requests"] {
        let (new, old) = (&new.at(part), &old.at(part));
        for (name, amount) in new.entries() {
            if !matches!(name, "cpu" | "memory") && old.key(name).value() != amount.value() {
                causes.forbidden(&amount, "only cpu and memory resources are mutable");
            }
        }
        for (name, _) in old.entries().filter(|(name, _)| new.key(name).is_absent()) {
            causes.forbidden(&new.key(name), &format!("resource {part} cannot be removed"));
        }
    }
}
