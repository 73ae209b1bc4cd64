//! Assembles pods from containers: one pod for all services, or a Pod and a Service for each.
//!
//! In one pod, the order of Compose becomes the order of init containers: a service becomes a sidecar with
//! a startup probe if another service waits until it is healthy. It becomes an init container if another service waits
//! until it has completed.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Container, HostAlias, Pod, PodDNSConfig, PodDNSConfigOption, PodSecurityContext, PodSpec, Service,
    ServicePort, ServiceSpec, Sysctl,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Findings;
use super::scalars::{is_host_name, label};
use super::service::{Condition, Restart, Unit};

/// Label with the name of a service.
const NAME: &str = "app.kubernetes.io/name";
/// Label with the name of the project.
const PART_OF: &str = "app.kubernetes.io/part-of";
/// Address under which the containers of a pod reach each other.
const LOOPBACK: &str = "127.0.0.1";

/// Assembles one pod. Services on the network of the host get a pod of their own.
pub fn one_pod(mut units: Vec<Unit>, project: &str, findings: &mut Findings) -> Vec<Pod> {
    let on_host: BTreeSet<String> =
        units.iter().filter(|unit| unit.pod.host_network).map(|unit| unit.name.clone()).collect();
    for unit in &mut units {
        unit.pod.host_network |= unit.pod.joins.as_ref().is_some_and(|joined| on_host.contains(joined));
        if unit.replicas > 1 {
            let what = format!("one pod has one container of a service, not {}", unit.replicas);
            findings.problem(
                format!("{}.deploy.replicas", unit.path()),
                what,
                "use --pod-per-service in a cluster",
            );
        }
    }
    units.retain(|unit| unit.replicas > 0);
    let (host, own): (Vec<Unit>, Vec<Unit>) = units.into_iter().partition(|unit| unit.pod.host_network);
    if !host.is_empty() && !own.is_empty() {
        for unit in &host {
            let what =
                "services on the network of the host and other services do not find each other by name";
            let remedy = "publish ports on the host, and use its address";
            findings.problem(format!("{}.network_mode", unit.path()), what, remedy);
        }
    }
    let mut pods = Vec::new();
    if !own.is_empty() {
        pods.push(assemble(project, project, own, true, findings));
    }
    if !host.is_empty() {
        let name = if pods.is_empty() { project.to_owned() } else { label(&format!("{project}-host")) };
        pods.push(assemble(&name, project, host, true, findings));
    }
    pods
}

/// Assembles a pod per replica of each service, and headless Services that give them their names.
pub fn pod_per_service(units: Vec<Unit>, project: &str, findings: &mut Findings) -> (Vec<Pod>, Vec<Service>) {
    let (mut pods, mut services) = (Vec::new(), Vec::<Service>::new());
    for unit in units {
        let name = label(&unit.name);
        if let Some(joined) = &unit.pod.joins {
            let what = format!("the service is in another pod than {joined}");
            findings.problem(format!("{}.network_mode", unit.path()), what, "leave --pod-per-service out");
        }
        for name in std::iter::once(&unit.name).chain(&unit.aliases) {
            let is_new = services.iter().all(|known| known.metadata.name.as_ref() != Some(name));
            if !is_host_name(name) || name.contains('.') {
                let what = format!("`{name}` cannot be the name of a Service");
                findings.problem(unit.path(), what, "use lower-case letters, digits and `-`");
            } else if is_new {
                services.push(headless(name, &unit, project));
            }
        }
        for at in 1..=unit.replicas {
            let name = if unit.replicas > 1 { label(&format!("{name}-{at}")) } else { name.clone() };
            pods.push(assemble(&name, project, vec![unit.clone()], false, findings));
        }
    }
    (pods, services)
}

fn headless(name: &str, unit: &Unit, project: &str) -> Service {
    let port = |port: &super::scalars::PublishedPort| ServicePort {
        name: Some(format!("{}-{}", port.protocol.to_lowercase(), port.target)),
        port: i32::from(port.target),
        protocol: Some(port.protocol.to_owned()),
        ..ServicePort::default()
    };
    let spec = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        // Compose resolves a name as soon as its container runs.
        publish_not_ready_addresses: Some(true),
        ports: (!unit.ports.is_empty()).then(|| unit.ports.iter().map(port).collect()),
        selector: Some(labels(&unit.name, project)),
        ..ServiceSpec::default()
    };
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    Service { metadata, spec: Some(spec), ..Service::default() }
}

fn labels(service: &str, project: &str) -> BTreeMap<String, String> {
    [(NAME, label(service)), (PART_OF, project.to_owned())]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

/// Assembles a pod of these services. With `shared_names`, their names resolve to the pod itself.
fn assemble(name: &str, project: &str, units: Vec<Unit>, shared_names: bool, findings: &mut Findings) -> Pod {
    let units = in_order(units, findings);
    if shared_names {
        check_ports(&units, findings);
    }
    let first = started_first(&units, findings);
    let mut spec = PodSpec {
        termination_grace_period_seconds: units
            .iter()
            .map(|unit| i64::try_from(unit.pod.grace_seconds).unwrap_or(i64::MAX))
            .max(),
        ..PodSpec::default()
    };
    pod_settings(&mut spec, &units, findings);
    spec.host_aliases = host_aliases(&units, shared_names, findings);
    let mut annotations = BTreeMap::new();
    let (mut containers, mut init) = (Vec::new(), Vec::new());
    for unit in units {
        for (key, value) in &unit.pod.annotations {
            let known = annotations.entry(key.clone()).or_insert_with(|| value.clone());
            if known != value {
                let what = format!("another service of the pod has another value of the label {key}");
                findings.problem(format!("{}.labels", unit.path()), what, "remove one of the two");
            }
        }
        for volume in &unit.volumes {
            let volumes = spec.volumes.get_or_insert_default();
            if !volumes.contains(volume) {
                volumes.push(volume.clone());
            }
        }
        let mut container = unit.container;
        if unit.pod.host_network {
            container.ports = None;
        }
        match first.get(&unit.name) {
            Some(Condition::Completed) => {
                container.readiness_probe = None;
                container.lifecycle = None;
                init.push(container);
            }
            Some(condition) => {
                if unit.restart != Restart::Always {
                    let what = "other services wait for this one, so the kubelet always restarts it";
                    findings.warning(
                        format!("services.{}.restart", unit.name),
                        what,
                        "write `restart: always`",
                    );
                }
                container.startup_probe = unit.startup.filter(|_| *condition == Condition::Healthy);
                container.restart_policy = Some(Restart::Always.policy().to_owned());
                init.push(container);
            }
            None => containers.push((container, unit.restart)),
        }
    }
    spec.restart_policy = Some(pod_restart(&mut containers).policy().to_owned());
    spec.containers = containers.into_iter().map(|(container, _)| container).collect();
    spec.init_containers = (!init.is_empty()).then_some(init);
    let labels = if shared_names {
        [(PART_OF.to_owned(), project.to_owned())].into()
    } else {
        let service = spec.containers.first().map_or(name, |container| container.name.as_str());
        labels(service, project)
    };
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels),
        annotations: (!annotations.is_empty()).then_some(annotations),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: Some(spec), ..Pod::default() }
}

/// Sorts services so that each follows those on which it depends, otherwise as in the file.
fn in_order(mut units: Vec<Unit>, findings: &mut Findings) -> Vec<Unit> {
    let mut sorted: Vec<Unit> = Vec::with_capacity(units.len());
    while !units.is_empty() {
        let waits = |unit: &Unit| {
            let is_waiting = |(name, _): &(String, Condition)| units.iter().any(|other| other.name == *name);
            unit.depends_on.iter().any(is_waiting)
        };
        let next = units.iter().position(|unit| !waits(unit)).unwrap_or_else(|| {
            let (path, what) =
                (format!("{}.depends_on", units[0].path()), "the services depend on each other");
            findings.problem(path, what, "remove one of the dependencies");
            0
        });
        let mut unit = units.remove(next);
        // Within a cycle, the rest of the dependencies cannot be kept.
        unit.depends_on.retain(|(name, _)| units.iter().all(|other| other.name != *name));
        sorted.push(unit);
    }
    sorted
}

/// The services that have to start before others, and what the others wait for.
fn started_first(units: &[Unit], findings: &mut Findings) -> BTreeMap<String, Condition> {
    let mut first = BTreeMap::<String, Condition>::new();
    // Later units depend on earlier ones, so one pass from the end finds indirect dependencies too.
    for unit in units.iter().rev() {
        let is_first = first.contains_key(&unit.name);
        for (name, condition) in &unit.depends_on {
            let path = format!("{}.depends_on.{name}", unit.path());
            let Some(other) = units.iter().find(|other| other.name == *name) else {
                let what = format!("the pod does not wait for the service {name}, which is not in it");
                findings.warning(path, what, "let the program retry until the service answers");
                continue;
            };
            if *condition == Condition::Healthy && other.startup.is_none() {
                findings.problem(
                    path,
                    format!("the service {name} has no health check"),
                    "add `healthcheck`",
                );
            }
            if *condition == Condition::Started && !is_first {
                continue;
            }
            let known = first.entry(name.clone()).or_insert(*condition);
            *known = match (*known, *condition) {
                (Condition::Completed, _) | (_, Condition::Completed) => Condition::Completed,
                (Condition::Healthy, _) | (_, Condition::Healthy) => Condition::Healthy,
                (Condition::Started, Condition::Started) => Condition::Started,
            };
        }
    }
    first
}

/// Reports ports of two services of a pod, because its containers share them.
fn check_ports(units: &[Unit], findings: &mut Findings) {
    let mut taken = BTreeMap::<(u16, &str), &str>::new();
    for unit in units {
        for port in &unit.ports {
            let key = (port.target, port.protocol);
            match taken.get(&key) {
                Some(other) if *other != unit.name => {
                    let what = format!(
                        "{} and {other} both listen on port {} ({}), but the containers of a pod share their ports",
                        unit.name, port.target, port.protocol
                    );
                    let remedy =
                        "let one of them listen on another port, or use --pod-per-service in a cluster";
                    findings.problem(format!("{}.ports", unit.path()), what, remedy);
                }
                _ => {
                    taken.insert(key, &unit.name);
                }
            }
        }
    }
}

/// Merges the settings of services that belong to the pod.
fn pod_settings(spec: &mut PodSpec, units: &[Unit], findings: &mut Findings) {
    let some = |flag: bool| flag.then_some(true);
    spec.host_network = some(units.iter().any(|unit| unit.pod.host_network));
    spec.host_pid = some(units.iter().any(|unit| unit.pod.host_pid));
    spec.host_ipc = some(units.iter().any(|unit| unit.pod.host_ipc));
    spec.share_process_namespace =
        some(units.iter().any(|unit| unit.pod.shares_processes) && spec.host_pid.is_none());
    let several = units.len() > 1;
    let (mut sysctls, mut groups) = (BTreeMap::<&str, &str>::new(), BTreeSet::new());
    let mut dns = PodDNSConfig::default();
    let extend = |list: &mut Option<Vec<String>>, more: &[String]| {
        for one in more {
            let list = list.get_or_insert_default();
            if !list.contains(one) {
                list.push(one.clone());
            }
        }
    };
    for unit in units {
        let pod = &unit.pod;
        let mut shared = |field: &str, what: &str| {
            let what = format!("{what} of all services in the pod");
            findings.warning(
                format!("{}.{field}", unit.path()),
                what,
                "check whether the other services permit it",
            );
        };
        if let Some(name) = &pod.hostname {
            let short = label(name.split('.').next().unwrap_or(name));
            if *spec.hostname.get_or_insert_with(|| short.clone()) != short {
                shared("hostname", "an earlier service sets the host name");
            } else if several {
                shared("hostname", "this is the host name");
            }
        }
        if several && pod.host_pid {
            shared("pid", "this is the process namespace");
        }
        if several && !pod.nameservers.is_empty() {
            shared("dns", "these are the name servers");
        }
        for (name, value) in &pod.sysctls {
            if *sysctls.entry(name).or_insert(value) != value {
                shared("sysctls", &format!("an earlier service sets {name}"));
            }
        }
        groups.extend(pod.groups.iter().copied());
        extend(&mut dns.nameservers, &pod.nameservers);
        extend(&mut dns.searches, &pod.searches);
        for option in &pod.resolver_options {
            let (name, value) = option.split_once(':').map_or((option.as_str(), None), |(a, b)| (a, Some(b)));
            let option = PodDNSConfigOption { name: Some(name.to_owned()), value: value.map(str::to_owned) };
            dns.options.get_or_insert_default().push(option);
        }
    }
    if dns.nameservers.is_some() {
        spec.dns_policy = Some("None".to_owned());
    }
    spec.dns_config = (dns != PodDNSConfig::default()).then_some(dns);
    let sysctl = |(name, value): (&str, &str)| Sysctl { name: name.to_owned(), value: value.to_owned() };
    let sysctls: Vec<Sysctl> = sysctls.into_iter().map(sysctl).collect();
    let security = PodSecurityContext {
        supplemental_groups: (!groups.is_empty()).then(|| groups.into_iter().collect()),
        sysctls: (!sysctls.is_empty()).then_some(sysctls),
        ..PodSecurityContext::default()
    };
    spec.security_context = (security != PodSecurityContext::default()).then_some(security);
}

/// Entries of `/etc/hosts`: the names of the services in the pod, and `extra_hosts`.
fn host_aliases(units: &[Unit], shared_names: bool, findings: &mut Findings) -> Option<Vec<HostAlias>> {
    let mut hosts = BTreeMap::<String, Vec<String>>::new();
    let mut add = |ip: &str, name: &str| {
        let names = hosts.entry(ip.to_owned()).or_default();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    };
    for unit in units {
        if shared_names {
            if is_host_name(&unit.name) {
                add(LOOPBACK, &unit.name);
            } else {
                let what = format!("`{}` cannot be a host name in a Pod", unit.name);
                let remedy =
                    "use lower-case letters, digits and `-`, also where other services connect to it";
                findings.problem(unit.path(), what, remedy);
            }
            unit.aliases.iter().for_each(|name| add(LOOPBACK, name));
        }
        for (ip, names) in &unit.pod.hosts {
            names.iter().for_each(|name| add(ip, name));
        }
    }
    let alias = |(ip, hostnames)| HostAlias { ip, hostnames: Some(hostnames) };
    let aliases: Vec<HostAlias> = hosts.into_iter().map(alias).collect();
    (!aliases.is_empty()).then_some(aliases)
}

/// The restart policy of the pod. Containers with another one get their own.
fn pod_restart(containers: &mut [(Container, Restart)]) -> Restart {
    let has = |policy: Restart| containers.iter().any(|(_, restart)| *restart == policy);
    let policies = [Restart::Always, Restart::OnFailure, Restart::Never];
    let policy = policies.into_iter().find(|policy| has(*policy)).unwrap_or(Restart::Always);
    for (container, restart) in containers.iter_mut().filter(|(_, restart)| *restart != policy) {
        container.restart_policy = Some(restart.policy().to_owned());
    }
    policy
}
