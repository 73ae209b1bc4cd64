//! Fields of Compose that no manifest expresses, with what to do instead.

use serde_json::Value;

use super::Findings;
use super::model::Rest;

/// Merging and inclusion belong to Compose, which prints the result.
const RESOLVE: &str = "resolve it first: docker compose config | kubelet import -";
const LIMITS: &str = "remove it, or use `cpus`, `mem_limit` and `deploy.resources`";
const NONE: &str = "remove it; a Pod has no such setting";

/// Fields of a service, by name. An empty remedy marks a field without effect on a running container.
const SERVICE: &[(&str, &str)] = &[
    ("attach", ""),
    ("blkio_config", NONE),
    ("cgroup", NONE),
    ("cgroup_parent", NONE),
    ("cpu_count", LIMITS),
    ("cpu_percent", LIMITS),
    ("cpu_period", LIMITS),
    ("cpu_quota", LIMITS),
    ("cpu_rt_period", LIMITS),
    ("cpu_rt_runtime", LIMITS),
    ("cpu_shares", LIMITS),
    ("cpuset", NONE),
    ("credential_spec", NONE),
    ("develop", ""),
    ("device_cgroup_rules", NONE),
    ("devices", "mount the device as a volume, and set `privileged: true`"),
    ("extends", RESOLVE),
    ("external_links", "write the address in `extra_hosts`"),
    ("gpus", NONE),
    ("init", "remove it, or use an image whose first process reaps its children, such as tini"),
    ("isolation", NONE),
    ("label_file", "write the labels in `labels`"),
    ("logging", "remove it; `kubelet logs` and containerLogMaxSize of the configuration file replace it"),
    ("mac_address", NONE),
    ("mem_swappiness", LIMITS),
    ("memswap_limit", LIMITS),
    ("models", NONE),
    ("oom_kill_disable", NONE),
    ("oom_score_adj", "remove it; the kubelet computes it from requests and limits"),
    ("pids_limit", "set podPidsLimit in the configuration file of the kubelet"),
    ("platform", "write the image of that platform"),
    ("post_start", "write `lifecycle.postStart` in the manifest"),
    ("pre_stop", "write `lifecycle.preStop` in the manifest"),
    ("provider", NONE),
    ("runtime", NONE),
    ("storage_opt", NONE),
    ("ulimits", "set them in the engine (`default-ulimits` of Docker)"),
    ("use_api_socket", "mount /var/run/docker.sock as a volume"),
    ("userns_mode", NONE),
    ("uts", NONE),
    ("volumes_from", "write the volumes in both services"),
];

/// Top-level fields.
const FILE: &[(&str, &str)] = &[("include", RESOLVE), ("models", NONE), ("version", "")];

/// Reports fields of a service that are not converted.
pub fn service(path: &str, rest: &Rest, findings: &mut Findings) {
    report(path, rest, SERVICE, findings);
}

/// Reports top-level fields that are not converted.
pub fn file(rest: &Rest, findings: &mut Findings) {
    report("", rest, FILE, findings);
}

/// Reports all fields of a map inside a service, except those that are `harmless`.
pub fn part(path: &str, rest: &Rest, harmless: &[&str], findings: &mut Findings) {
    for (name, _) in rest.iter().filter(|(name, value)| is_set(value) && !name.starts_with("x-")) {
        if !harmless.contains(&name.as_str()) {
            findings.problem(format!("{path}.{name}"), format!("`{name}` is not expressed"), NONE);
        }
    }
}

fn report(path: &str, rest: &Rest, known: &[(&str, &str)], findings: &mut Findings) {
    for (name, value) in rest.iter().filter(|(name, _)| !name.starts_with("x-")) {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match known.iter().find(|(known, _)| known == name) {
            Some((_, "")) => {}
            Some(_) if !is_set(value) => {}
            Some((_, remedy)) => findings.problem(path, format!("`{name}` is not expressed"), *remedy),
            None => {
                let what = format!("Compose has no field `{name}` here");
                findings.problem(path, what, "correct the name, or remove the field");
            }
        }
    }
}

/// Whether a field has an effect: its value is neither false nor empty.
pub fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(_) => true,
        Value::String(text) => !matches!(text.as_str(), "" | "false"),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}
