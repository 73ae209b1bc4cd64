//! Resolves `fieldRef` and `resourceFieldRef`.

use std::net::IpAddr;

use api::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

use super::ConfigError;
use super::facts::Facts;
use super::{containers, host_network, namespace, spec_of};

/// The value of a `fieldRef` in the environment.
///
/// # Errors
/// If the field is not supported, or the pod has no IP address yet.
pub(crate) fn pod_field(
    pod: &Pod,
    facts: &Facts,
    pod_ips: &[IpAddr],
    path: &str,
) -> Result<String, ConfigError> {
    let spec = pod.spec.as_ref();
    let ips = if host_network(pod) { &facts.host_ips } else { pod_ips };
    match path {
        "spec.nodeName" => Ok(facts.node_name.clone()),
        "spec.serviceAccountName" => {
            Ok(spec.and_then(|s| s.service_account_name.clone()).unwrap_or_default())
        }
        "status.hostIP" => first(&facts.host_ips, "the node has no address yet"),
        "status.hostIPs" => Ok(join(&facts.host_ips)),
        "status.podIP" => first(ips, "the pod has no address yet"),
        "status.podIPs" => Ok(join(ips)),
        _ => metadata_field(pod, path),
    }
}

/// The value of a `fieldRef` in a volume, where only metadata fields are supported.
///
/// # Errors
/// If the field is not supported.
pub(crate) fn metadata_field(pod: &Pod, path: &str) -> Result<String, ConfigError> {
    let meta = &pod.metadata;
    if let Some((field, key)) = subscript(path) {
        let map = if field == "labels" { &meta.labels } else { &meta.annotations };
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    match path {
        "metadata.name" => Ok(meta.name.clone().unwrap_or_default()),
        "metadata.namespace" => Ok(namespace(pod).to_owned()),
        "metadata.uid" => Ok(meta.uid.clone().unwrap_or_default()),
        "metadata.labels" => Ok(lines(meta.labels.iter().flatten())),
        "metadata.annotations" => Ok(lines(meta.annotations.iter().flatten())),
        _ => Err(ConfigError::container(format!(
            "field {path} cannot be referred to here: use metadata.name, metadata.namespace, metadata.uid, \
             metadata.labels['KEY'], metadata.annotations['KEY'] or, in env, spec.nodeName, \
             spec.serviceAccountName, status.hostIP(s), status.podIP(s)"
        ))),
    }
}

/// Parses `metadata.labels['KEY']` to `("labels", "KEY")`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (field, rest) = path.strip_prefix("metadata.")?.split_once("['")?;
    let key = rest.strip_suffix("']")?;
    matches!(field, "labels" | "annotations").then_some((field, key))
}

/// Formats a map as lines of `key="value"`, with quoted and escaped values.
fn lines<'a>(map: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    map.map(|(key, value)| format!("{key}={}", quoted(value))).collect::<Vec<_>>().join("\n")
}

/// Formats a value in double quotes with the escapes of Go strings, which readers of these files expect.
fn quoted(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0b' => out.push_str("\\v"),
            '\x0c' => out.push_str("\\f"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn first(ips: &[IpAddr], missing: &str) -> Result<String, ConfigError> {
    ips.first().map(ToString::to_string).ok_or_else(|| ConfigError::container(missing))
}

fn join(ips: &[IpAddr]) -> String {
    ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The value of a `resourceFieldRef` in units of its divisor, rounded up.
///
/// An unset limit defaults to the allocatable amount of the node. An unset request is zero.
///
/// # Errors
/// If there is no such container or resource.
pub(crate) fn resource_field(
    pod: &Pod,
    container: &str,
    facts: &Facts,
    field: &ResourceFieldSelector,
) -> Result<String, ConfigError> {
    let name = field.container_name.as_deref().filter(|n| !n.is_empty()).unwrap_or(container);
    let container = containers(spec_of(pod)?).find(|c| c.name == name).ok_or_else(|| {
        ConfigError::container(format!(
            "resourceFieldRef names the container {name}, which the pod does not have"
        ))
    })?;
    let unsupported = || {
        ConfigError::container(format!(
            "resource {} cannot be referred to: use limits. or requests. with cpu, memory, ephemeral-storage or hugepages-SIZE",
            field.resource
        ))
    };
    let (kind, resource) = field.resource.split_once('.').ok_or_else(unsupported)?;
    let measure = if resource == "cpu" { Quantity::milli } else { Quantity::units };
    let amount = amount_of(container, kind, resource).map(measure).filter(|&n| n != 0);
    let amount = match (kind, resource) {
        ("limits", "cpu") => amount.unwrap_or(facts.cpu_milli),
        ("limits", "memory") => amount.unwrap_or_else(|| facts.allocatable_memory_bytes()),
        ("limits", "ephemeral-storage") => amount.unwrap_or_else(|| facts.allocatable_storage_bytes()),
        ("requests", "cpu" | "memory" | "ephemeral-storage") => amount.unwrap_or(0),
        ("limits" | "requests", _) if resource.starts_with("hugepages-") => amount.unwrap_or(0),
        _ => return Err(unsupported()),
    };
    let one = if resource == "cpu" { 1000 } else { 1 };
    let divisor = field
        .divisor
        .as_ref()
        .and_then(|d| Quantity::of(d).ok())
        .map(measure)
        .filter(|&n| n > 0)
        .unwrap_or(one);
    Ok((amount.div_euclid(divisor) + i64::from(amount.rem_euclid(divisor) != 0)).to_string())
}

fn amount_of(container: &Container, kind: &str, resource: &str) -> Option<Quantity> {
    let resources = container.resources.as_ref()?;
    let list = if kind == "limits" { &resources.limits } else { &resources.requests };
    Quantity::of(list.as_ref()?.get(resource)?).ok()
}

#[cfg(test)]
mod tests;
