//! Converts a Compose service to a container, its volumes, and what it requires of its pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerPort, EnvVar, Probe, Volume};
use serde_json::Value;

use super::interpolate::env_lines;
use super::model::{EnvFile, Pairs, Service, Syntax, Text, Words};
use super::scalars::{PublishedPort, exposed, is_host_name, label, literal, ports, seconds, words};
use super::unsupported;
use super::{Context, Findings, mounts, settings};

/// Grace period of Compose in seconds, if a service sets none.
const GRACE_SECONDS: u64 = 10;

/// When a container starts again after it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    /// The value of `restartPolicy`.
    pub fn policy(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::OnFailure => "OnFailure",
            Self::Never => "Never",
        }
    }
}

/// What a service waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Started,
    Healthy,
    Completed,
}

/// A service as a container.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Name of the service.
    pub name: String,
    pub container: Container,
    /// Volumes of the pod for this container. Units that share a volume have the same entry.
    pub volumes: Vec<Volume>,
    pub ports: Vec<PublishedPort>,
    pub depends_on: Vec<(String, Condition)>,
    pub restart: Restart,
    /// Startup probe, for the case that another service waits until this one is healthy.
    pub startup: Option<Probe>,
    pub replicas: u32,
    /// Further host names of the service.
    pub aliases: Vec<String>,
    pub pod: PodSettings,
}

impl Unit {
    /// The path of the service in the Compose file.
    pub fn path(&self) -> String {
        format!("services.{}", self.name)
    }
}

/// Settings of a service that belong to the whole pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSettings {
    pub host_network: bool,
    pub host_pid: bool,
    pub host_ipc: bool,
    /// Whether the containers of the pod see each other's processes.
    pub shares_processes: bool,
    /// Name of the service in whose pod this one has to run.
    pub joins: Option<String>,
    pub hostname: Option<String>,
    pub nameservers: Vec<String>,
    pub searches: Vec<String>,
    pub resolver_options: Vec<String>,
    /// Host names by address.
    pub hosts: BTreeMap<String, Vec<String>>,
    pub sysctls: BTreeMap<String, String>,
    pub groups: Vec<i64>,
    pub grace_seconds: u64,
    pub annotations: BTreeMap<String, String>,
}

/// Converts a service.
pub fn convert(name: &str, service: &Service, context: &Context<'_>, findings: &mut Findings) -> Unit {
    let path = format!("services.{name}");
    unsupported::service(&path, &service.rest, findings);
    let mut container = Container {
        name: label(name),
        image: image(name, service, context, findings),
        image_pull_policy: Some(pull_policy(&path, service, findings).to_owned()),
        working_dir: service.working_dir.clone().map(|text| text.0),
        stdin: service.stdin_open.filter(|flag| flag.0).map(|_| true),
        tty: service.tty.filter(|flag| flag.0).map(|_| true),
        ..Container::default()
    };
    container.command = command(&format!("{path}.entrypoint"), service.entrypoint.as_ref(), findings);
    container.args = command(&format!("{path}.command"), service.command.as_ref(), findings);
    let env = environment(&path, service, context, findings);
    container.env = (!env.is_empty()).then_some(env);
    let ports = all_ports(&path, service, findings);
    container.ports = (!ports.is_empty()).then(|| ports.iter().map(container_port).collect());
    let mut pod = pod_settings(&path, service, findings);
    container.security_context = settings::security(&path, service, findings);
    container.resources = settings::resources(&path, service, findings);
    container.lifecycle = settings::stop_signal(service);
    let (readiness, startup) = settings::probes(&path, service, findings);
    container.readiness_probe = readiness;
    let mounted = mounts::convert(name, service, context, findings);
    container.volume_mounts = (!mounted.mounts.is_empty()).then_some(mounted.mounts);
    pod.grace_seconds = service.stop_grace_period.as_ref().map_or(GRACE_SECONDS, |Text(text)| {
        findings.value(&format!("{path}.stop_grace_period"), seconds(text)).unwrap_or(GRACE_SECONDS)
    });
    let count = |text: &Text| text.0.parse::<u32>().map_err(|_| format!("`{}` is not a number", text.0));
    let deployed = service.deploy.as_ref().and_then(|deploy| deploy.replicas.as_ref());
    let replicas = service.scale.as_ref().or(deployed).map(count);
    let replicas = replicas.and_then(|count| findings.value(&format!("{path}.deploy.replicas"), count));
    Unit {
        name: name.to_owned(),
        container,
        volumes: mounted.volumes,
        ports,
        depends_on: dependencies(&path, service, findings),
        restart: settings::restart(&path, service, findings),
        startup,
        replicas: replicas.unwrap_or(1),
        aliases: aliases(&path, service, findings),
        pod,
    }
}

/// The image. A service that is built has the image name that `docker compose build` gives it.
fn image(name: &str, service: &Service, context: &Context<'_>, findings: &mut Findings) -> Option<String> {
    let built = service.image.clone().map_or_else(|| format!("{}-{name}", context.project), |text| text.0);
    let path = format!("services.{name}");
    if service.build.is_some() {
        let what = format!("the kubelet does not build images; the container uses the image {built}");
        findings.warning(
            format!("{path}.build"),
            what,
            "build it with `docker compose build` before the pod starts",
        );
    } else if service.image.is_none() {
        findings.problem(&path, "the service has no image", "add `image`");
    }
    Some(built)
}

fn pull_policy(path: &str, service: &Service, findings: &mut Findings) -> &'static str {
    match service.pull_policy.as_ref().map_or("missing", |text| text.0.as_str()) {
        "always" | "refresh" => "Always",
        "never" => "Never",
        "missing" | "if_not_present" | "build" => "IfNotPresent",
        other => {
            let what = format!("the pull policy `{other}` does not exist in a Pod");
            findings.problem(format!("{path}.pull_policy"), what, "write always, missing or never");
            "IfNotPresent"
        }
    }
}

fn command(path: &str, from: Option<&Words>, findings: &mut Findings) -> Option<Vec<String>> {
    let list = match from? {
        Words::List(list) => list.clone(),
        Words::Line(line) => findings.value(path, words(line))?,
    };
    if list.is_empty() {
        findings.problem(path, "a Pod cannot clear the command of an image", "write the complete command");
        return None;
    }
    Some(list.iter().map(|word| literal(word)).collect())
}

/// The environment: files first, then `environment`, which takes precedence.
fn environment(path: &str, service: &Service, context: &Context<'_>, findings: &mut Findings) -> Vec<EnvVar> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut set = |key: String, value: String| match found.iter_mut().find(|(known, _)| *known == key) {
        Some((_, known)) => *known = value,
        None => found.push((key, value)),
    };
    let lookup = |name: &str| context.variables.get(name).map(str::to_owned);
    for (at, entry) in service.env_file.0.iter().enumerate() {
        let path = format!("{path}.env_file[{at}]");
        let long = match entry {
            Syntax::Short(file) => EnvFile { path: Text(file.clone()), required: None, format: None },
            Syntax::Long(long) => long.clone(),
        };
        let (file, is_required) = (context.resolve(&long.path.0), long.required.is_none_or(|flag| flag.0));
        let raw = long.format.is_some_and(|text| text.0 == "raw");
        let text = match (context.read)(&file) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) if !is_required => continue,
            Err(error) => {
                let what = format!("{} cannot be read: {error}", file.display());
                findings.problem(path, what, "create the file, or add `required: false`");
                continue;
            }
        };
        match env_lines(&text, &lookup, raw) {
            Ok(lines) => lines.into_iter().for_each(|(key, value)| {
                if let Some(value) = value.or_else(|| lookup(&key)) {
                    set(key, value);
                }
            }),
            Err((line, what)) => {
                findings.problem(path, format!("{}:{line}: {what}", file.display()), "correct the line");
            }
        }
    }
    for (key, value) in service.environment.iter().flat_map(|Pairs(pairs)| pairs) {
        if let Some(value) = value.clone().or_else(|| lookup(key)) {
            set(key.clone(), value);
        }
    }
    let variable =
        |(name, value): (String, String)| EnvVar { name, value: Some(literal(&value)), ..EnvVar::default() };
    found.into_iter().map(variable).collect()
}

/// Published and exposed ports, each once.
fn all_ports(path: &str, service: &Service, findings: &mut Findings) -> Vec<PublishedPort> {
    let mut all: Vec<PublishedPort> = Vec::new();
    for (at, entry) in service.ports.iter().flatten().enumerate() {
        let path = format!("{path}.ports[{at}]");
        let Some(found) = findings.value(&path, ports(entry)) else { continue };
        if found.iter().any(|port| port.host.is_none()) {
            let what = "the kubelet does not choose a port of the host, so this port is not published";
            findings.problem(&path, what, "write HOST:CONTAINER");
        }
        all.extend(found);
    }
    for (at, text) in service.expose.iter().flat_map(|texts| &texts.0).enumerate() {
        let Some(found) = findings.value(&format!("{path}.expose[{at}]"), exposed(text)) else { continue };
        let is_new = |port: &PublishedPort| {
            all.iter().all(|known| (known.target, known.protocol) != (port.target, port.protocol))
        };
        let new: Vec<PublishedPort> = found.into_iter().filter(is_new).collect();
        all.extend(new);
    }
    all
}

fn container_port(port: &PublishedPort) -> ContainerPort {
    ContainerPort {
        container_port: i32::from(port.target),
        host_port: port.host.map(i32::from),
        host_ip: (!port.host_ip.is_empty() && port.host.is_some()).then(|| port.host_ip.clone()),
        name: (!port.name.is_empty()).then(|| label(&port.name)),
        protocol: Some(port.protocol.to_owned()),
    }
}

fn dependencies(path: &str, service: &Service, findings: &mut Findings) -> Vec<(String, Condition)> {
    let mut all = Vec::new();
    for (name, options) in service.depends_on.iter().flat_map(|named| &named.0) {
        let condition = match options.get("condition").and_then(Value::as_str).unwrap_or("service_started") {
            "service_started" => Condition::Started,
            "service_healthy" => Condition::Healthy,
            "service_completed_successfully" => Condition::Completed,
            other => {
                let what = format!("`{other}` is not a condition");
                let remedy = "write service_started, service_healthy or service_completed_successfully";
                findings.problem(format!("{path}.depends_on.{name}.condition"), what, remedy);
                Condition::Started
            }
        };
        if options.get("restart").and_then(Value::as_bool) == Some(true) {
            let what = "the kubelet does not restart a container because another one restarts";
            findings.problem(
                format!("{path}.depends_on.{name}.restart"),
                what,
                "remove it; the program has to reconnect",
            );
        }
        all.push((name.clone(), condition));
    }
    all
}

/// Host names beside the name of the service: of networks, links and containers.
fn aliases(path: &str, service: &Service, findings: &mut Findings) -> Vec<String> {
    let mut all: Vec<String> = service.container_name.iter().map(|text| text.0.clone()).collect();
    for (network, options) in service.networks.iter().flat_map(|named| &named.0) {
        let path = format!("{path}.networks.{network}");
        for (option, value) in options {
            if option == "aliases" {
                let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                all.extend(names.map(str::to_owned));
            } else if unsupported::is_set(value) && option != "priority" && !option.starts_with("x-") {
                let what = "a pod has one network, and the kubelet chooses its addresses";
                findings.problem(format!("{path}.{option}"), what, "remove it");
            }
        }
    }
    all.retain(|name| is_host_name(name));
    all
}

fn pod_settings(path: &str, service: &Service, findings: &mut Findings) -> PodSettings {
    let list = |texts: &Option<super::model::Texts>| texts.iter().flat_map(|all| all.0.clone()).collect();
    let mut pod = PodSettings {
        hostname: service.hostname.clone().map(|text| text.0),
        nameservers: list(&service.dns),
        searches: list(&service.dns_search),
        resolver_options: list(&service.dns_opt),
        ..PodSettings::default()
    };
    pod.searches.extend(service.domainname.clone().map(|text| text.0));
    let text = |text: &Option<Text>| text.clone().unwrap_or_default().0;
    let of_service = |text: &str| text.strip_prefix("service:").map(str::to_owned);
    match text(&service.network_mode).as_str() {
        "" | "bridge" | "default" => {}
        "host" => pod.host_network = true,
        other => {
            pod.joins = of_service(other);
            if pod.joins.is_none() {
                let what = format!("the network mode `{other}` does not exist in a Pod");
                findings.problem(
                    format!("{path}.network_mode"),
                    what,
                    "use the default, host or service:NAME",
                );
            }
        }
    }
    match text(&service.pid).as_str() {
        "" => {}
        "host" => pod.host_pid = true,
        other if of_service(other).is_some() => pod.shares_processes = true,
        other => {
            let what = format!("`{other}` does not exist in a Pod");
            findings.problem(format!("{path}.pid"), what, "use host or service:NAME");
        }
    }
    match text(&service.ipc).as_str() {
        "" | "private" | "shareable" => {}
        "host" => pod.host_ipc = true,
        // Containers of a pod share their IPC namespace.
        other if of_service(other).is_some() => {}
        other => {
            let what = format!("`{other}` does not exist in a Pod");
            findings.problem(format!("{path}.ipc"), what, "use host or service:NAME");
        }
    }
    pod.hosts = hosts(&format!("{path}.extra_hosts"), service.extra_hosts.as_ref(), findings);
    for (name, value) in service.sysctls.iter().flat_map(|pairs| &pairs.0) {
        pod.sysctls.insert(name.clone(), value.clone().unwrap_or_default());
    }
    for (at, group) in service.group_add.iter().flat_map(|texts| &texts.0).enumerate() {
        let number = group.parse::<i64>().map_err(|_| format!("`{group}` is not a numeric group"));
        pod.groups.extend(findings.value(&format!("{path}.group_add[{at}]"), number));
    }
    let labels = service.labels.iter().map(|pairs| ("labels", pairs));
    for (field, pairs) in labels.chain(service.annotations.iter().map(|pairs| ("annotations", pairs))) {
        for (key, value) in &pairs.0 {
            if settings::is_qualified_name(key) {
                pod.annotations.insert(key.clone(), value.clone().unwrap_or_default());
            } else {
                let what = format!("`{key}` is not a valid key of an annotation");
                findings.problem(
                    format!("{path}.{field}"),
                    what,
                    "use letters, digits, `-`, `_`, `.` and one `/`",
                );
            }
        }
    }
    pod
}

/// Parses `extra_hosts`: a list of `HOST=IP` or `HOST:IP`, or a map to an address or a list of addresses.
fn hosts(path: &str, from: Option<&Value>, findings: &mut Findings) -> BTreeMap<String, Vec<String>> {
    let entry = |text: &str| {
        let pair = text.split_once('=').or_else(|| text.split_once(':'));
        pair.map(|(host, ip)| (host.to_owned(), ip.to_owned()))
    };
    let texts = |value: &Value| match value {
        Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        other => other.as_str().map(str::to_owned).into_iter().collect::<Vec<String>>(),
    };
    let pairs: Vec<(String, String)> = match from {
        Some(Value::Object(map)) => map
            .iter()
            .flat_map(|(host, addresses)| texts(addresses).into_iter().map(|ip| (host.clone(), ip)))
            .collect(),
        Some(list) => texts(list).iter().filter_map(|text| entry(text)).collect(),
        None => Vec::new(),
    };
    let mut hosts = BTreeMap::<String, Vec<String>>::new();
    for (host, address) in pairs {
        let ip = address.trim_start_matches('[').trim_end_matches(']');
        if ip.parse::<std::net::IpAddr>().is_err() {
            let what = format!("{host}: `{address}` is not an IP address");
            findings.problem(path, what, "write the address of the host");
        } else if !is_host_name(&host) {
            findings.problem(
                path,
                format!("`{host}` is not a host name"),
                "use lower-case letters, digits, `-` and `.`",
            );
        } else {
            hosts.entry(ip.to_owned()).or_default().push(host);
        }
    }
    hosts
}
