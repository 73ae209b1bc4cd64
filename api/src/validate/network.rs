//! Validates DNS settings, host aliases and host ports of a Pod.

use k8s_openapi::api::core::v1::PodSpec;

use super::names::{dns_subdomain, ip_address, is_dns_search, one_of, required};
use crate::field_error::FieldErrors;
use crate::path::Path;

/// Limit for name servers, as in resolv.conf.
const NAMESERVERS_MAX: usize = 3;
/// Limits for the number and the total length of DNS search paths.
const SEARCHES_MAX: usize = 32;
const SEARCHES_MAX_CHARS: usize = 2048;

pub(super) fn check(spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    let policy = spec.dns_policy.as_deref().unwrap_or_default();
    let known = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    one_of(policy, &known, &path.field("dnsPolicy"), errors);
    dns_config(spec, &path.field("dnsConfig"), errors);
    let aliases = &path.field("hostAliases");
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        let path = &aliases.index(index);
        ip_address(&alias.ip, &path.field("ip"), errors);
        let names = path.field("hostnames");
        for (index, name) in alias.hostnames.iter().flatten().enumerate() {
            dns_subdomain(name, &names.index(index), errors);
        }
    }
    if spec.host_network == Some(true) {
        host_ports(spec, path, errors);
    }
}

/// With `hostNetwork`, requires that a host port equals the container port. A template may omit the host port.
fn host_ports(spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    let containers = &path.field("containers");
    for (index, container) in spec.containers.iter().enumerate() {
        let container_path = containers.index(index);
        let ports = container_path.field("ports");
        for (index, port) in container.ports.iter().flatten().enumerate() {
            if ![0, port.container_port].contains(&port.host_port.unwrap_or_default()) {
                let what =
                    format!("the pod is in the host's network, where the port is {}", port.container_port);
                let remedy = "remove it, or write the same number as `containerPort`";
                errors.add(&ports.index(index).field("hostPort"), what, remedy);
            }
        }
    }
}

fn dns_config(spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    let servers =
        spec.dns_config.as_ref().and_then(|config| config.nameservers.as_deref()).unwrap_or_default();
    if spec.dns_policy.as_deref() == Some("None") && servers.is_empty() {
        required(&path.field("nameservers"), "add a name server: `dnsPolicy: None` provides none", errors);
    }
    let Some(config) = &spec.dns_config else { return };
    let servers_path = &path.field("nameservers");
    if servers.len() > NAMESERVERS_MAX {
        errors.add(servers_path, format!("there are {}", servers.len()), format!("keep {NAMESERVERS_MAX}"));
    }
    for (index, server) in servers.iter().enumerate() {
        ip_address(server, &servers_path.index(index), errors);
    }
    let searches = config.searches.as_deref().unwrap_or_default();
    let searches_path = &path.field("searches");
    if searches.len() > SEARCHES_MAX || searches.join(" ").len() > SEARCHES_MAX_CHARS {
        let remedy = format!("keep {SEARCHES_MAX}, and {SEARCHES_MAX_CHARS} characters in all");
        errors.add(searches_path, "the search paths are too long", remedy);
    }
    for (index, search) in searches.iter().enumerate() {
        if search != "." && !is_dns_search(search.strip_suffix('.').unwrap_or(search)) {
            errors.add(
                &searches_path.index(index),
                format!("`{search}` is not a domain"),
                "write it like svc.example.com",
            );
        }
    }
    let options = &path.field("options");
    for (index, option) in config.options.iter().flatten().enumerate() {
        if option.name.as_deref().unwrap_or_default().is_empty() {
            required(&options.index(index).field("name"), "add the option's name, such as `ndots`", errors);
        }
    }
}
