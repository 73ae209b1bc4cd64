//! The section of `kubelet describe pod` about containers.

use serde_json::Value;

use super::text::{Page, list, string, time};

/// Describes one list of containers. An empty list adds nothing.
pub fn describe(page: &mut Page, pod: &Value, head: &str, specs: &str, statuses: &str) {
    if list(pod, specs).next().is_none() {
        return;
    }
    page.head(0, head);
    for spec in list(pod, specs) {
        let name = string(spec, "/name");
        let status = list(pod, statuses).find(|status| string(status, "/name") == name);
        page.head(2, name);
        one(page, spec, status.unwrap_or(&Value::Null));
    }
}

fn one(page: &mut Page, spec: &Value, status: &Value) {
    page.field(4, "Container ID", string(status, "/containerID"));
    page.field(4, "Image", string(spec, "/image"));
    page.field(4, "Image ID", string(status, "/imageID"));
    let ports: Vec<&Value> = list(spec, "/ports").collect();
    let port = |port: &&Value, field: &str| {
        let number = port.get(field).and_then(Value::as_i64).unwrap_or_default();
        format!("{number}/{}", Some(string(port, "/protocol")).filter(|p| !p.is_empty()).unwrap_or("TCP"))
    };
    let (port_head, host_head) =
        if ports.len() > 1 { ("Ports", "Host Ports") } else { ("Port", "Host Port") };
    let joined = |field: &str| ports.iter().map(|p| port(p, field)).collect::<Vec<_>>().join(", ");
    let none = |text: String| if text.is_empty() { "<none>".to_owned() } else { text };
    page.field(4, port_head, &none(joined("containerPort")));
    page.field(4, host_head, &none(joined("hostPort")));
    words(page, "Command", spec, "/command");
    words(page, "Args", spec, "/args");
    state(page, "State", status.get("state"));
    if status.pointer("/lastState").is_some_and(|last| last.as_object().is_some_and(|last| !last.is_empty()))
    {
        state(page, "Last State", status.get("lastState"));
    }
    let ready = status.get("ready").and_then(Value::as_bool).unwrap_or_default();
    page.field(4, "Ready", if ready { "True" } else { "False" });
    page.field(
        4,
        "Restart Count",
        &status.get("restartCount").and_then(Value::as_i64).unwrap_or_default().to_string(),
    );
    resources(page, "Limits", spec.pointer("/resources/limits"));
    resources(page, "Requests", spec.pointer("/resources/requests"));
    for (head, field) in
        [("Liveness", "/livenessProbe"), ("Readiness", "/readinessProbe"), ("Startup", "/startupProbe")]
    {
        if let Some(probe) = spec.pointer(field) {
            page.field(4, head, &probe_text(probe));
        }
    }
    let from: Vec<String> = list(spec, "/envFrom").map(env_from).collect();
    if !from.is_empty() {
        page.head(4, "Environment Variables from");
        from.iter().for_each(|line| page.line(6, line));
    }
    let env: Vec<(String, String)> =
        list(spec, "/env").map(|env| (string(env, "/name").to_owned(), env_value(env))).collect();
    if env.is_empty() {
        page.field(4, "Environment", "<none>");
    } else {
        page.head(4, "Environment");
        env.iter().for_each(|(name, value)| page.field(6, name, value));
    }
    let mounts: Vec<String> = list(spec, "/volumeMounts").map(mount).collect();
    if mounts.is_empty() {
        page.field(4, "Mounts", "<none>");
    } else {
        page.head(4, "Mounts");
        mounts.iter().for_each(|line| page.line(6, line));
    }
}

fn words(page: &mut Page, head: &str, spec: &Value, path: &str) {
    let words: Vec<&str> = list(spec, path).filter_map(Value::as_str).collect();
    if !words.is_empty() {
        page.head(4, head);
        words.iter().flat_map(|word| word.lines()).for_each(|line| page.line(6, line));
    }
}

fn state(page: &mut Page, head: &str, state: Option<&Value>) {
    let part = |name: &str| state.and_then(|state| state.get(name));
    if let Some(running) = part("running") {
        page.field(4, head, "Running");
        page.field(6, "Started", &time(string(running, "/startedAt")));
    } else if let Some(ended) = part("terminated") {
        page.field(4, head, "Terminated");
        page.filled(6, "Reason", string(ended, "/reason"));
        page.filled(6, "Message", string(ended, "/message"));
        page.field(
            6,
            "Exit Code",
            &ended.get("exitCode").and_then(Value::as_i64).unwrap_or_default().to_string(),
        );
        if let Some(signal) = ended.get("signal").and_then(Value::as_i64).filter(|signal| *signal > 0) {
            page.field(6, "Signal", &signal.to_string());
        }
        page.field(6, "Started", &time(string(ended, "/startedAt")));
        page.field(6, "Finished", &time(string(ended, "/finishedAt")));
    } else {
        page.field(4, head, "Waiting");
        let waiting = part("waiting").unwrap_or(&Value::Null);
        page.filled(6, "Reason", string(waiting, "/reason"));
        page.filled(6, "Message", string(waiting, "/message"));
    }
}

fn resources(page: &mut Page, head: &str, resources: Option<&Value>) {
    let resources = resources.and_then(Value::as_object);
    let mut rows: Vec<(&String, &str)> = resources
        .into_iter()
        .flatten()
        .map(|(name, value)| (name, value.as_str().unwrap_or_default()))
        .collect();
    if rows.is_empty() {
        return;
    }
    rows.sort();
    page.head(4, head);
    rows.iter().for_each(|(name, value)| page.field(6, name, value));
}

fn probe_text(probe: &Value) -> String {
    let number = |name: &str, otherwise: i64| probe.get(name).and_then(Value::as_i64).unwrap_or(otherwise);
    let scalar = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let what = if let Some(http) = probe.get("httpGet") {
        let scheme = Some(string(http, "/scheme")).filter(|s| !s.is_empty()).unwrap_or("HTTP").to_lowercase();
        format!(
            "http-get {scheme}://{}:{}{}",
            string(http, "/host"),
            scalar(http.get("port")),
            string(http, "/path")
        )
    } else if let Some(tcp) = probe.get("tcpSocket") {
        format!("tcp-socket {}:{}", string(tcp, "/host"), scalar(tcp.get("port")))
    } else if let Some(grpc) = probe.get("grpc") {
        format!("grpc <pod>:{} {}", scalar(grpc.get("port")), string(grpc, "/service"))
    } else {
        let words: Vec<&str> = list(probe, "/exec/command").filter_map(Value::as_str).collect();
        format!("exec [{}]", words.join(" "))
    };
    format!(
        "{} delay={}s timeout={}s period={}s #success={} #failure={}",
        what.trim_end(),
        number("initialDelaySeconds", 0),
        number("timeoutSeconds", 1),
        number("periodSeconds", 10),
        number("successThreshold", 1),
        number("failureThreshold", 3),
    )
}

fn env_from(from: &Value) -> String {
    let (source, kind) = match from.get("secretRef") {
        Some(source) => (source, "Secret"),
        None => (from.get("configMapRef").unwrap_or(&Value::Null), "ConfigMap"),
    };
    let prefix = string(from, "/prefix");
    let prefix = if prefix.is_empty() { String::new() } else { format!(" with prefix '{prefix}'") };
    format!("{}\t{kind}{prefix}\tOptional: {}", string(source, "/name"), is_optional(source))
        .replace('\t', "  ")
}

fn env_value(env: &Value) -> String {
    let Some(from) = env.get("valueFrom") else { return string(env, "/value").to_owned() };
    for (field, what) in [("configMapKeyRef", "config map"), ("secretKeyRef", "secret")] {
        if let Some(source) = from.get(field) {
            let (key, name) = (string(source, "/key"), string(source, "/name"));
            return format!("<set to the key '{key}' in {what} '{name}'>  Optional: {}", is_optional(source));
        }
    }
    if let Some(source) = from.get("fieldRef") {
        let version = Some(string(source, "/apiVersion")).filter(|v| !v.is_empty()).unwrap_or("v1");
        return format!(" ({version}:{})", string(source, "/fieldPath"));
    }
    let source = from.get("resourceFieldRef").unwrap_or(&Value::Null);
    format!("{} ({})", string(source, "/containerName"), string(source, "/resource")).trim_start().to_owned()
}

fn mount(mount: &Value) -> String {
    let read_only = mount.get("readOnly").and_then(Value::as_bool).unwrap_or_default();
    let mut how = vec![if read_only { "ro".to_owned() } else { "rw".to_owned() }];
    let sub_path = string(mount, "/subPath");
    if !sub_path.is_empty() {
        how.push(format!("path=\"{sub_path}\""));
    }
    format!("{} from {} ({})", string(mount, "/mountPath"), string(mount, "/name"), how.join(","))
}

/// Whether a reference is marked `optional`.
fn is_optional(source: &Value) -> bool {
    source.get("optional").and_then(Value::as_bool).unwrap_or_default()
}
