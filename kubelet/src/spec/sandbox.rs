//! Builds the runtime spec of a pod's sandbox.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ContainerPort, Pod, PodSpec};

use super::facts::Facts;
use super::{ConfigError, Note};
use super::{dns, hash, host_network, identity, namespace, resources, security, spec_of, sysctl};
use crate::runtime::labels::SANDBOX_NAME;
use crate::runtime::spec::{HostPort, Network, SandboxSpec};

/// Maximum length of a host name; a limit of the kernel.
const MAX_HOSTNAME: usize = 64;
/// Maximum length of a label of a host name.
const MAX_LABEL: usize = 63;

/// Builds the spec of a sandbox.
///
/// # Errors
/// If the pod requests something unsupported or contradictory. The message names the field.
pub fn sandbox(pod: &Pod, facts: &Facts, attempt: u32, image: &str) -> Result<SandboxSpec, ConfigError> {
    let spec = spec_of(pod)?;
    if spec.host_users == Some(false) {
        return Err(ConfigError::sandbox("hostUsers: false is not supported: leave it out"));
    }
    if spec.resources.as_ref().is_some_and(|r| r.limits.is_some() || r.requests.is_some()) {
        return Err(ConfigError::sandbox(
            "resources of the pod as a whole are not supported: set those of its containers",
        ));
    }
    let host_network = host_network(pod);
    let (hostname, domain) = if host_network { (None, None) } else { names(pod, spec, facts)? };
    let context = spec.security_context.as_ref();
    Ok(SandboxSpec {
        identity: identity(pod, SANDBOX_NAME, attempt, hash::sandbox(pod)),
        image: image.to_owned(),
        network: network(pod),
        host_ports: if host_network { Vec::new() } else { host_ports(spec)? },
        hostname,
        domain,
        host_aliases: host_aliases(spec)?,
        dns: dns::of(pod, facts).0,
        host_pid: spec.host_pid == Some(true),
        host_ipc: spec.host_ipc == Some(true),
        share_process_namespace: spec.share_process_namespace == Some(true),
        sysctls: sysctl::of(pod, facts)?,
        cgroup_parent: resources::cgroup_parent(spec, pod.metadata.uid.as_deref().unwrap_or_default(), facts),
        security_options: security::se_linux(context.and_then(|c| c.se_linux_options.as_ref())).collect(),
        user: context.and_then(|c| Some((c.run_as_user?, c.run_as_group))).map(|(user, group)| match group {
            Some(group) => format!("{user}:{group}"),
            None => user.to_string(),
        }),
    })
}

/// Notes about settings that the sandbox omits. They are reported once, as events, when the sandbox is created.
pub fn notes(pod: &Pod, facts: &Facts) -> Vec<Note> {
    dns::of(pod, facts).1
}

/// Network mode of a pod.
pub(super) fn network(pod: &Pod) -> Network {
    if host_network(pod) { Network::Host } else { Network::Pod }
}

/// Host name and domain of a pod without host network.
fn names(pod: &Pod, spec: &PodSpec, facts: &Facts) -> Result<(Option<String>, Option<String>), ConfigError> {
    if let Some(name) = spec.hostname_override.as_deref().filter(|n| !n.is_empty()) {
        return Ok((Some(name.to_owned()), None));
    }
    let name = spec.hostname.as_deref().filter(|n| !n.is_empty());
    let name = cut(name.or(pod.metadata.name.as_deref()).unwrap_or_default());
    let Some(subdomain) = spec.subdomain.as_deref().filter(|s| !s.is_empty()) else {
        return Ok((Some(name.to_owned()), None));
    };
    let mut domain = format!("{subdomain}.{}.svc", namespace(pod));
    if !facts.cluster_domain.is_empty() {
        domain = format!("{domain}.{}", facts.cluster_domain);
    }
    if spec.set_hostname_as_fqdn != Some(true) {
        return Ok((Some(name.to_owned()), Some(domain)));
    }
    let full = format!("{name}.{domain}");
    if full.len() > MAX_HOSTNAME {
        return Err(ConfigError::sandbox(format!(
            "setHostnameAsFQDN: {full} has {} characters, a host name may have {MAX_HOSTNAME}: shorten hostname or subdomain",
            full.len()
        )));
    }
    Ok((Some(full), Some(domain)))
}

/// Truncates a name to the length of a label, without trailing separators.
fn cut(name: &str) -> &str {
    match name.char_indices().nth(MAX_LABEL) {
        Some((at, _)) => name[..at].trim_end_matches(['-', '.']),
        None => name,
    }
}

/// Host ports, in the order of the containers.
pub(super) fn host_ports(spec: &PodSpec) -> Result<Vec<HostPort>, ConfigError> {
    super::containers(spec)
        .flat_map(|c| c.ports.iter().flatten())
        .filter_map(|port| Some((port, port.host_port.filter(|&p| p != 0)?)))
        .map(|(port, number)| host_port(port, number))
        .collect()
}

fn host_port(port: &ContainerPort, number: i32) -> Result<HostPort, ConfigError> {
    let wrong = |what: &str| ConfigError::sandbox(format!("hostPort {number}: {what}"));
    let address = port.host_ip.as_deref().filter(|ip| !ip.is_empty());
    let address = match address.map(str::parse::<IpAddr>).transpose() {
        Ok(ip) => ip.filter(|ip| !ip.is_unspecified()),
        Err(_) => return Err(wrong("hostIP is not an IP address")),
    };
    Ok(HostPort {
        host_ip: address,
        host_port: u16::try_from(number).map_err(|_| wrong("a port is between 1 and 65535"))?,
        container_port: u16::try_from(port.container_port)
            .map_err(|_| wrong("containerPort is not between 1 and 65535"))?,
        protocol: port.protocol.as_deref().unwrap_or("TCP").to_ascii_lowercase(),
    })
}

fn host_aliases(spec: &PodSpec) -> Result<Vec<(String, IpAddr)>, ConfigError> {
    let mut lines = Vec::new();
    for alias in spec.host_aliases.iter().flatten() {
        let ip = alias
            .ip
            .parse()
            .map_err(|_| ConfigError::sandbox(format!("hostAliases: {} is not an IP address", alias.ip)))?;
        lines.extend(alias.hostnames.iter().flatten().map(|name| (name.clone(), ip)));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests;
