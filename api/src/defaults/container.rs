//! Defaults of a container: image pull policy, probes, ports, handlers, and in a Pod requests.

use serde_json::{Map, Value};

use crate::fill::{each, fields_at, fill, object_at, text};

/// Fills in a container or an init container.
pub(super) fn container(container: &mut Map<String, Value>) {
    any(container);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        object_at(container, probe).into_iter().for_each(self::probe);
    }
    for action in ["lifecycle.postStart.httpGet", "lifecycle.preStop.httpGet"] {
        object_at(container, action).into_iter().for_each(http_get);
    }
}

/// In a Pod, what a container is limited to is what it asks for where it does not say.
pub(super) fn requests(container: &mut Map<String, Value>) {
    object_at(container, "resources").into_iter().for_each(requests_from_limits);
}

/// Fills in what every container has; of an ephemeral one neither probes nor requests count.
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

/// An image that is pinned by a tag or a digest is pulled once; `latest`, said or meant, each time.
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

/// Fills in which version of the pod's fields the `fieldRef` speaks of.
pub(super) fn field_ref(of: &mut Map<String, Value>) {
    if let Some(field) = object_at(of, "fieldRef") {
        fill(field, "apiVersion", "v1");
    }
}

/// Writes a number where none stands; zero counts as silence, as it does for the API.
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

/// A limit without a request is a request, too.
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
