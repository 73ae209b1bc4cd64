//! Settings of one container: security context, resources, stop signal, health check and restart policy.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, ExecAction, Lifecycle, Probe, ResourceRequirements, SeccompProfile,
    SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::Findings;
use super::model::{HealthCheck, ResourceAmounts, Service, Text, Texts, Words};
use super::scalars::{cpus, literal, seconds, size};
use super::service::Restart;
use super::unsupported;

/// Defaults of a Compose health check, in seconds.
const INTERVAL_SECONDS: u64 = 30;
const TIMEOUT_SECONDS: u64 = 30;
const START_INTERVAL_SECONDS: u64 = 5;
/// Failures of a Compose health check until a container is unhealthy.
const RETRIES: u64 = 3;

/// The security context, or `None` if the service sets nothing of it.
pub fn security(path: &str, service: &Service, findings: &mut Findings) -> Option<SecurityContext> {
    let mut context = SecurityContext {
        privileged: service.privileged.filter(|flag| flag.0).map(|_| true),
        read_only_root_filesystem: service.read_only.filter(|flag| flag.0).map(|_| true),
        ..SecurityContext::default()
    };
    let capabilities = |texts: &Option<Texts>| {
        let names = texts.as_ref()?.0.iter().map(|name| {
            let upper = name.to_uppercase();
            upper.strip_prefix("CAP_").map_or(upper.clone(), str::to_owned)
        });
        Some(names.collect())
    };
    let (add, drop) = (capabilities(&service.cap_add), capabilities(&service.cap_drop));
    context.capabilities = (add.is_some() || drop.is_some()).then_some(Capabilities { add, drop });
    if let Some(Text(user)) = &service.user {
        let (user, group) =
            user.split_once(':').map_or((user.as_str(), None), |(user, group)| (user, Some(group)));
        let path = format!("{path}.user");
        context.run_as_user = id(&path, user, findings);
        context.run_as_group = group.and_then(|group| id(&path, group, findings));
    }
    for (at, option) in service.security_opt.iter().flat_map(|texts| &texts.0).enumerate() {
        let profile = |profile: &str| AppArmorProfile {
            type_: if profile == "unconfined" { "Unconfined" } else { "Localhost" }.to_owned(),
            localhost_profile: (profile != "unconfined").then(|| profile.to_owned()),
        };
        match option.split_once([':', '=']).unwrap_or((option, "true")) {
            ("no-new-privileges", "true") => context.allow_privilege_escalation = Some(false),
            ("no-new-privileges", "false") => {}
            ("seccomp", "unconfined") => {
                context.seccomp_profile =
                    Some(SeccompProfile { type_: "Unconfined".to_owned(), localhost_profile: None });
            }
            ("apparmor", name) => context.app_armor_profile = Some(profile(name)),
            _ => {
                let what = format!("`{option}` is not expressed");
                let remedy = "write `securityContext` in the manifest";
                findings.problem(format!("{path}.security_opt[{at}]"), what, remedy);
            }
        }
    }
    (context != SecurityContext::default()).then_some(context)
}

/// A numeric user or group.
fn id(path: &str, text: &str, findings: &mut Findings) -> Option<i64> {
    let number = text.parse::<i64>().map_err(|_| format!("a Pod needs the number of `{text}`, not its name"));
    findings.value(path, number)
}

/// Requests and limits, or `None`.
pub fn resources(path: &str, service: &Service, findings: &mut Findings) -> Option<ResourceRequirements> {
    let deploy = service.deploy.clone().unwrap_or_default();
    unsupported::part(
        &format!("{path}.deploy"),
        &deploy.rest,
        // These concern only the schedulers of Swarm.
        &["mode", "endpoint_mode", "placement", "update_config", "rollback_config"],
        findings,
    );
    let mut limits = amounts(&format!("{path}.deploy.resources.limits"), &deploy.resources.limits, findings);
    let mut requests =
        amounts(&format!("{path}.deploy.resources.reservations"), &deploy.resources.reservations, findings);
    let mut add = |into: &mut BTreeMap<String, Quantity>,
                   name: &str,
                   field: &str,
                   value: Option<Result<String, String>>| {
        let quantity = value.and_then(|value| findings.value(&format!("{path}.{field}"), value));
        if let Some(quantity) = quantity.filter(|quantity| quantity != "0") {
            into.entry(name.to_owned()).or_insert(Quantity(quantity));
        }
    };
    let sized = |text: &Option<Text>| text.as_ref().map(|text| size(&text.0));
    add(&mut limits, "memory", "mem_limit", sized(&service.mem_limit));
    add(&mut requests, "memory", "mem_reservation", sized(&service.mem_reservation));
    add(&mut limits, "cpu", "cpus", service.cpus.as_ref().map(|text| cpus(&text.0)));
    // Without requests, Kubernetes would request the limits.
    for name in limits.keys() {
        requests.entry(name.clone()).or_insert_with(|| Quantity("0".to_owned()));
    }
    let some = |amounts: BTreeMap<String, Quantity>| (!amounts.is_empty()).then_some(amounts);
    let resources = ResourceRequirements {
        limits: some(limits),
        requests: some(requests),
        ..ResourceRequirements::default()
    };
    (resources != ResourceRequirements::default()).then_some(resources)
}

fn amounts(path: &str, from: &ResourceAmounts, findings: &mut Findings) -> BTreeMap<String, Quantity> {
    unsupported::part(path, &from.rest, &[], findings);
    let memory = from.memory.as_ref().map(|text| ("memory", size(&text.0)));
    let cpu = from.cpus.as_ref().map(|text| ("cpu", cpus(&text.0)));
    let parsed = memory.into_iter().chain(cpu).filter_map(|(name, value)| {
        let field = if name == "cpu" { "cpus" } else { name };
        let quantity = findings.value(&format!("{path}.{field}"), value)?;
        (quantity != "0").then(|| (name.to_owned(), Quantity(quantity)))
    });
    parsed.collect()
}

/// The stop signal as a lifecycle.
pub fn stop_signal(service: &Service) -> Option<Lifecycle> {
    let Text(signal) = service.stop_signal.as_ref()?;
    let upper = signal.to_uppercase();
    let name = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    Some(Lifecycle { stop_signal: Some(name), ..Lifecycle::default() })
}

/// The restart policy of `restart`, or of `deploy.restart_policy` if there is one. The default of Compose is `no`.
pub fn restart(path: &str, service: &Service, findings: &mut Findings) -> Restart {
    let deployed = service.deploy.as_ref().and_then(|deploy| deploy.restart_policy.as_ref());
    let (field, policy) = match (deployed, &service.restart) {
        (Some(policy), _) => (
            "deploy.restart_policy.condition",
            policy.condition.clone().map_or("any".to_owned(), |text| text.0),
        ),
        (None, Some(Text(policy))) => ("restart", policy.clone()),
        (None, None) => return Restart::Never,
    };
    match policy.split_once(':').unwrap_or((&policy, "")) {
        ("always" | "unless-stopped" | "any", "") => Restart::Always,
        ("no" | "none" | "false", "") => Restart::Never,
        ("on-failure", "") => Restart::OnFailure,
        ("on-failure", _) => {
            let what = "the kubelet does not limit the number of restarts";
            findings.problem(
                format!("{path}.{field}"),
                what,
                "write on-failure, or set a backoff in the kubelet",
            );
            Restart::OnFailure
        }
        _ => {
            let what = format!("`{policy}` is not a restart policy");
            findings.problem(
                format!("{path}.{field}"),
                what,
                "write no, always, on-failure or unless-stopped",
            );
            Restart::Never
        }
    }
}

/// The readiness probe of a health check, and the startup probe that a service needs if another one waits for its
/// health. Docker does not restart unhealthy containers, so there is no liveness probe.
pub fn probes(path: &str, service: &Service, findings: &mut Findings) -> (Option<Probe>, Option<Probe>) {
    let Some(check) = &service.healthcheck else { return (None, None) };
    let path = format!("{path}.healthcheck");
    unsupported::part(&path, &check.rest, &[], findings);
    if check.disable.is_some_and(|flag| flag.0) {
        return (None, None);
    }
    let Some(command) = health_command(&path, check, findings) else { return (None, None) };
    let mut duration = |name: &str, field: &Option<Text>, default: u64| {
        let parsed =
            field.as_ref().and_then(|text| findings.value(&format!("{path}.{name}"), seconds(&text.0)));
        parsed.filter(|seconds| *seconds > 0).unwrap_or(default)
    };
    let interval = duration("interval", &check.interval, INTERVAL_SECONDS);
    let timeout = duration("timeout", &check.timeout, TIMEOUT_SECONDS);
    let start_period = duration("start_period", &check.start_period, 0);
    let start_interval = duration("start_interval", &check.start_interval, START_INTERVAL_SECONDS);
    let retries = check
        .retries
        .as_ref()
        .map(|text| text.0.parse::<u64>().map_err(|_| format!("`{}` is not a number", text.0)));
    let retries = retries.and_then(|number| findings.value(&format!("{path}.retries"), number));
    let retries = retries.filter(|retries| *retries > 0).unwrap_or(RETRIES);
    let small = |number: u64| Some(i32::try_from(number).unwrap_or(i32::MAX));
    let probe = |period: u64, failures: u64| Probe {
        exec: Some(ExecAction { command: Some(command.clone()) }),
        period_seconds: small(period),
        timeout_seconds: small(timeout),
        failure_threshold: small(failures),
        ..Probe::default()
    };
    // Failures within the start period do not count, so the startup probe permits as many of them.
    let period = if start_period > 0 { start_interval } else { interval };
    let startup = probe(period, (start_period + retries * interval).div_ceil(period));
    (Some(probe(interval, retries)), Some(startup))
}

fn health_command(path: &str, check: &HealthCheck, findings: &mut Findings) -> Option<Vec<String>> {
    let shell = |line: &str| vec!["/bin/sh".to_owned(), "-c".to_owned(), literal(line)];
    match check.test.as_ref() {
        Some(Words::Line(line)) => Some(shell(line)),
        Some(Words::List(list)) => match list.split_first().map(|(form, rest)| (form.as_str(), rest)) {
            Some(("NONE", _)) => None,
            Some(("CMD-SHELL", [line])) => Some(shell(line)),
            Some(("CMD", command @ [_, ..])) => Some(command.iter().map(|word| literal(word)).collect()),
            _ => {
                let what = "the test begins with neither CMD nor CMD-SHELL";
                findings.problem(format!("{path}.test"), what, "write [CMD, COMMAND, ARGUMENT...]");
                None
            }
        },
        None => {
            let what = "the kubelet does not read the health check of an image";
            findings.problem(path, what, "add `test`");
            None
        }
    }
}

/// Whether a text is a valid key of an annotation: a name of at most 63 characters, after an optional DNS prefix.
pub fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_edge = |c: char| c.is_ascii_alphanumeric();
    let is_name = !name.is_empty()
        && name.len() <= 63
        && name.starts_with(is_edge)
        && name.ends_with(is_edge)
        && name.chars().all(|c| is_edge(c) || matches!(c, '-' | '_' | '.'));
    is_name && prefix.is_none_or(super::scalars::is_host_name)
}
