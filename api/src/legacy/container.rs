//! Converts containers of old API versions to v1.

use serde_json::Value;

use super::pod::{Fields, each, fields};
use crate::quantity::{Format, Quantity};

pub(super) fn of_v1beta1(container: &mut Fields) {
    // In v1beta1, fields had the names of Docker: `entrypoint` is `command` in v1, and `command` is `args`.
    let arguments = container.remove("command");
    if let Some(entrypoint) = container.remove("entrypoint") {
        container.insert("command".to_owned(), entrypoint);
    }
    if let Some(arguments) = arguments {
        container.insert("args".to_owned(), arguments);
    }
    limits(container);
    each(container, "env", |variable| either(variable, "name", "key"));
    each(container, "volumeMounts", |mount| {
        either(mount, "mountPath", "path");
        mount.remove("mountType");
    });
    each(container, "ports", |port| {
        if let Some(Value::String(protocol)) = port.get_mut("protocol") {
            *protocol = protocol.to_uppercase();
        }
    });
    for probe in ["livenessProbe", "readinessProbe"] {
        if let Some(Value::Object(probe)) = container.get_mut(probe) {
            probe.remove("type");
        }
    }
    of_v1beta3(container);
}

/// Converts what v1beta3 has in common with earlier versions.
pub(super) fn of_v1beta3(container: &mut Fields) {
    security(container);
    if let Some(Value::String(policy)) = container.get_mut("imagePullPolicy")
        && let Some(today) = policy.strip_prefix("Pull")
    {
        *policy = today.to_owned();
    }
    each(container, "env", |variable| {
        let from = variable.get_mut("valueFrom").and_then(|from| from.get_mut("fieldRef"));
        if let Some(Value::Object(field)) = from {
            field_ref(field);
        }
    });
}

/// Converts `cpu` (millicores) and `memory` (bytes) to limits. 0 is no limit.
fn limits(container: &mut Fields) {
    let amount = |value: Option<Value>| value.and_then(|text| text.as_str()?.parse::<Quantity>().ok());
    let cpu = amount(container.remove("cpu")).map(|cpu| ("cpu", Quantity::from_milli(cpu.units())));
    let memory = amount(container.remove("memory"))
        .map(|memory| ("memory", Quantity::from_units(memory.units(), Format::DecimalSi)));
    for (name, amount) in [cpu, memory].into_iter().flatten().filter(|(_, amount)| !amount.is_zero()) {
        let limits = object(object(container, "resources"), "limits");
        limits.entry(name).or_insert_with(|| amount.to_string().into());
    }
}

/// Moves `privileged` and `capabilities` to the security context.
fn security(container: &mut Fields) {
    for field in ["privileged", "capabilities"] {
        if let Some(value) = container.remove(field) {
            object(container, "securityContext").entry(field).or_insert(value);
        }
    }
}

/// Converts field paths to those of v1.
fn field_ref(field: &mut Fields) {
    if let Some(Value::String(version)) = field.get_mut("apiVersion")
        && version.starts_with("v1beta")
    {
        *version = "v1".to_owned();
    }
    if let Some(Value::String(path)) = field.get_mut("fieldPath") {
        let today = match path.as_str() {
            "id" | "name" => "metadata.name",
            "namespace" => "metadata.namespace",
            "uid" => "metadata.uid",
            "spec.host" | "status.host" => "spec.nodeName",
            _ => return,
        };
        *path = today.to_owned();
    }
}

/// Merges two names of one field; the newer one wins.
fn either(of: &mut Fields, newer: &str, older: &str) {
    let old = of.remove(older);
    let has = of.get(newer).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if let (false, Some(old)) = (has, old) {
        of.insert(newer.to_owned(), old);
    }
}

/// The object at a field, created if it is missing.
fn object<'a>(of: &'a mut Fields, name: &str) -> &'a mut Fields {
    let entry = of.entry(name).or_insert_with(|| Fields::new().into());
    if !entry.is_object() {
        *entry = fields(Value::Null).into();
    }
    entry.as_object_mut().expect("it has just been made one")
}
