//! Lint rules for valid pods: `kubelet check` warns about likely mistakes, and the pods still run.

use std::collections::BTreeSet;

use api::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Pod, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

/// A warning: the path of the field, the description and the remedy.
pub(super) type Finding = (String, String, &'static str);

/// Smallest memory limit that the Docker engine accepts: 6 MiB.
const LEAST_MEMORY_BYTES: i64 = 6 * 1024 * 1024;
/// Fields in which `${NAME}` may be intended, because a shell or the program expands it at run time.
const EXPANDED_LATER: [&str; 3] = ["command", "args", "value"];
/// Typographic quotes, as word processors insert them.
const SMART_QUOTES: [char; 4] = ['\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}'];

/// Runs all lint rules on a pod.
pub(super) fn of(pod: &Pod) -> Vec<Finding> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let mut findings = Vec::new();
    for (at, container) in spec.init_containers.iter().flatten().enumerate() {
        of_container(container, &format!("spec.initContainers[{at}]"), &mut findings);
    }
    for (at, container) in spec.containers.iter().enumerate() {
        of_container(container, &format!("spec.containers[{at}]"), &mut findings);
    }
    texts(&serde_json::to_value(spec).unwrap_or_default(), "spec", true, &mut findings);
    findings
}

fn of_container(container: &Container, path: &str, findings: &mut Vec<Finding>) {
    let limit = container.resources.as_ref().and_then(|resources| resources.limits.as_ref()?.get("memory"));
    let bytes = limit.and_then(|limit| Quantity::of(limit).ok()).map(Quantity::units);
    if let Some(bytes) = bytes.filter(|bytes| (1..LEAST_MEMORY_BYTES).contains(bytes)) {
        let what = format!("the limit is {bytes} bytes; the engine refuses less than 6Mi");
        findings.push((format!("{path}.resources.limits[memory]"), what, "write 6Mi or more: 128Mi"));
    }
    let image = container.image.as_deref().unwrap_or_default();
    if repository(image).chars().any(char::is_uppercase) {
        let what = format!("`{image}` has upper-case letters in its repository, which no registry has");
        findings.push((format!("{path}.image"), what, "write the repository in lower case"));
    }
    let ports: BTreeSet<&str> =
        container.ports.iter().flatten().filter_map(|port| port.name.as_deref()).collect();
    let lifecycle = container.lifecycle.as_ref();
    for (name, user, action) in [
        ("livenessProbe", "probe", container.liveness_probe.as_ref().and_then(port_of_probe)),
        ("readinessProbe", "probe", container.readiness_probe.as_ref().and_then(port_of_probe)),
        ("startupProbe", "probe", container.startup_probe.as_ref().and_then(port_of_probe)),
        (
            "lifecycle.postStart",
            "hook",
            lifecycle.and_then(|all| all.post_start.as_ref()).and_then(port_of_hook),
        ),
        ("lifecycle.preStop", "hook", lifecycle.and_then(|all| all.pre_stop.as_ref()).and_then(port_of_hook)),
    ] {
        let Some((action, port)) = action else { continue };
        if !ports.contains(port) {
            let what = format!("the container has no port named `{port}`, so the {user} fails");
            let remedy = "write a port number, or give a port of the container this name";
            findings.push((format!("{path}.{name}.{action}.port"), what, remedy));
        }
    }
}

/// The action of a probe, and the named port that it uses.
fn port_of_probe(probe: &Probe) -> Option<(&'static str, &str)> {
    named_port(probe.http_get.as_ref(), probe.tcp_socket.as_ref())
}

/// The action of a hook, and the named port that it uses.
fn port_of_hook(hook: &LifecycleHandler) -> Option<(&'static str, &str)> {
    named_port(hook.http_get.as_ref(), hook.tcp_socket.as_ref())
}

fn named_port<'a>(
    http: Option<&'a HTTPGetAction>,
    tcp: Option<&'a TCPSocketAction>,
) -> Option<(&'static str, &'a str)> {
    let http = http.map(|get| ("httpGet", &get.port));
    let tcp = tcp.map(|socket| ("tcpSocket", &socket.port));
    match http.or(tcp)? {
        (action, IntOrString::String(port)) if port.parse::<u16>().is_err() => Some((action, port.as_str())),
        _ => None,
    }
}

/// The repository of an image reference, without registry host, tag and digest. Host and tag may contain upper-case letters.
fn repository(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or_default();
    let path = match image.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path,
        _ => image,
    };
    match path.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => path,
    }
}

/// Finds unexpanded placeholders and typographic quotes in all strings of a value.
fn texts(value: &Value, path: &str, is_literal: bool, findings: &mut Vec<Finding>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_literal = is_literal && !EXPANDED_LATER.contains(&name.as_str());
                texts(value, &format!("{path}.{name}"), is_literal, findings);
            }
        }
        Value::Array(elements) => {
            for (at, value) in elements.iter().enumerate() {
                texts(value, &format!("{path}[{at}]"), is_literal, findings);
            }
        }
        Value::String(text) => {
            if is_literal && let Some(name) = placeholder(text) {
                let what = format!("`${{{name}}}` is not expanded");
                findings.push((path.to_owned(), what, "write the value, or render the template first"));
            }
            if text.contains(SMART_QUOTES) {
                let what = "the text contains typographic quotes".to_owned();
                findings.push((path.to_owned(), what, "write ' or \" if quotes were meant"));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The name in the first `${NAME}` of a text.
fn placeholder(text: &str) -> Option<&str> {
    let (name, _) = text.split_once("${")?.1.split_once('}')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_:-.".contains(c));
    is_name.then_some(name)
}

#[cfg(test)]
mod tests {
    //! Tests of lint rules and their exceptions.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::{of, repository};

    fn paths(container: serde_json::Value) -> Vec<String> {
        let mut container = container;
        container["name"] = "c".into();
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
        let found = of(&serde_json::from_value(pod).unwrap());
        found.into_iter().map(|(path, ..)| path.replace("spec.containers[0].", "")).collect()
    }

    #[test]
    fn likely_mistakes_are_found() {
        for (container, expected) in [
            (json!({"image": "i", "resources": {"limits": {"memory": "128k"}}}), "resources.limits[memory]"),
            (json!({"image": "Nginx"}), "image"),
            (json!({"image": "ghcr.io/Acme/web:1"}), "image"),
            (json!({"image": "web:${TAG}"}), "image"),
            (json!({"image": "i", "args": ["\u{201c}a\u{201d}"]}), "args[0]"),
            (
                json!({"image": "i", "livenessProbe": {"httpGet": {"port": "web"}}, "ports": [{"name": "http", "containerPort": 80}]}),
                "livenessProbe.httpGet.port",
            ),
            (
                json!({"image": "i", "startupProbe": {"tcpSocket": {"port": "x"}}}),
                "startupProbe.tcpSocket.port",
            ),
            (
                json!({"image": "i", "lifecycle": {"preStop": {"httpGet": {"port": "x"}}}}),
                "lifecycle.preStop.httpGet.port",
            ),
        ] {
            assert_eq!(paths(container.clone()), [expected], "{container}");
        }
    }

    #[test]
    fn lint_accepts_valid_lookalikes() {
        for container in [
            json!({"image": "i", "resources": {"limits": {"memory": "6Mi"}}}),
            json!({"image": "Registry.example:5000/web:V1@sha256:ABC"}),
            json!({"image": "i", "command": ["sh", "-c", "echo ${HOME}"], "env": [{"name": "A", "value": "${B}"}]}),
            json!({"image": "i", "livenessProbe": {"httpGet": {"port": 80}}}),
            json!({"image": "i", "readinessProbe": {"httpGet": {"port": "web"}}, "ports": [{"name": "web", "containerPort": 80}]}),
        ] {
            assert_eq!(paths(container.clone()), [""; 0], "{container}");
        }
        for (image, expected) in [("a/B:C", "a/B"), ("localhost/A", "A"), ("h:1/a/b:T@sha256:x", "a/b")] {
            assert_eq!(repository(image), expected);
        }
    }
}
