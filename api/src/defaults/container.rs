//! Defaults of containers: image pull policy, probes, ports, handlers, and requests of Pods.

use serde_json::{Map, Value};

use crate::dotted::{each, fields_at, fill, object_at, text};

/// Sets the defaults of a container or an init container.
pub(super) fn container(container: &mut Map<String, Value>) {
    any(container);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        object_at(container, probe).into_iter().for_each(self::probe);
    }
    for action in ["lifecycle.postStart.httpGet", "lifecycle.preStop.httpGet"] {
        object_at(container, action).into_iter().for_each(http_get);
    }
}

/// Sets missing requests to the limits. Only for Pods, not for templates.
pub(super) fn requests(container: &mut Map<String, Value>) {
    object_at(container, "resources").into_iter().for_each(requests_from_limits);
}

/// Sets the defaults that also apply to ephemeral containers.
pub(super) fn any(container: &mut Map<String, Value>) {
    let policy = pull_policy(text(container, "image"));
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    each(container, "ports").for_each(|port| fill(port, "protocol", "TCP"));
    for source in each(container, "env").filter_map(|variable| object_at(variable, "valueFrom")) {
        field_ref(source);
        if let Some(key) = object_at(source, "fileKeyRef") {
            fill(key, "optional", false);
        }
    }
}

/// `Always` for the tag `latest` and for no tag, otherwise `IfNotPresent`.
pub(super) fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
        None if digest.is_some() => "IfNotPresent",
        None => "Always",
    }
}

/// Sets the API version of a `fieldRef`.
pub(super) fn field_ref(of: &mut Map<String, Value>) {
    if let Some(field) = object_at(of, "fieldRef") {
        fill(field, "apiVersion", "v1");
    }
}

/// Sets a number if the field is missing or 0.
pub(super) fn fill_number(of: &mut Map<String, Value>, field: &str, number: Value) {
    let is_silent = |value: &Value| value.is_null() || value.as_i64() == Some(0);
    if of.get(field).is_none_or(is_silent) {
        of.insert(field.to_owned(), number);
    }
}

fn probe(probe: &mut Map<String, Value>) {
    for (field, number) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        fill_number(probe, field, number.into());
    }
    object_at(probe, "httpGet").into_iter().for_each(http_get);
    if let Some(grpc) = object_at(probe, "grpc") {
        fill(grpc, "service", "");
    }
}

fn http_get(action: &mut Map<String, Value>) {
    fill(action, "path", "/");
    fill(action, "scheme", "HTTP");
}

/// Sets each missing request to the limit.
fn requests_from_limits(resources: &mut Map<String, Value>) {
    let limits = resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let Some(requests) = fields_at(resources, "requests") else { return };
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}
