//! Names and addresses a Pod sees: resolvers, extra hosts, ports in the host's network.

use k8s_openapi::api::core::v1::PodSpec;

use super::names::{dns_subdomain, ip_address, is_dns_search, one_of, required};
use crate::fault::Faults;
use crate::path::Path;

/// Name servers that a C library asks.
const NAMESERVERS_MAX: usize = 3;
/// Search paths that a C library tries, and their characters together.
const SEARCHES_MAX: usize = 32;
const SEARCHES_MAX_CHARS: usize = 2048;

pub(super) fn check(spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    let policy = spec.dns_policy.as_deref().unwrap_or_default();
    let known = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    one_of(policy, &known, &path.field("dnsPolicy"), faults);
    dns_config(spec, &path.field("dnsConfig"), faults);
    let aliases = &path.field("hostAliases");
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        let path = &aliases.index(index);
        ip_address(&alias.ip, &path.field("ip"), faults);
        let names = path.field("hostnames");
        for (index, name) in alias.hostnames.iter().flatten().enumerate() {
            dns_subdomain(name, &names.index(index), faults);
        }
    }
    if spec.host_network == Some(true) {
        host_ports(spec, path, faults);
    }
}

/// In the host's network a port cannot be another one outside. A template may leave it open: its pods say it.
fn host_ports(spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    let containers = &path.field("containers");
    for (index, container) in spec.containers.iter().enumerate() {
        let container_path = containers.index(index);
        let ports = container_path.field("ports");
        for (index, port) in container.ports.iter().flatten().enumerate() {
            if ![0, port.container_port].contains(&port.host_port.unwrap_or_default()) {
                let what =
                    format!("the pod is in the host's network, where the port is {}", port.container_port);
                let remedy = "remove it, or write the same number as `containerPort`";
                faults.add(&ports.index(index).field("hostPort"), what, remedy);
            }
        }
    }
}

fn dns_config(spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    let servers =
        spec.dns_config.as_ref().and_then(|config| config.nameservers.as_deref()).unwrap_or_default();
    if spec.dns_policy.as_deref() == Some("None") && servers.is_empty() {
        required(
            &path.field("nameservers"),
            "add a name server: `dnsPolicy: None` leaves the pod without any",
            faults,
        );
    }
    let Some(config) = &spec.dns_config else { return };
    let servers_path = &path.field("nameservers");
    if servers.len() > NAMESERVERS_MAX {
        faults.add(servers_path, format!("there are {}", servers.len()), format!("keep {NAMESERVERS_MAX}"));
    }
    for (index, server) in servers.iter().enumerate() {
        ip_address(server, &servers_path.index(index), faults);
    }
    let searches = config.searches.as_deref().unwrap_or_default();
    let searches_path = &path.field("searches");
    if searches.len() > SEARCHES_MAX || searches.join(" ").len() > SEARCHES_MAX_CHARS {
        let remedy = format!("keep {SEARCHES_MAX}, and {SEARCHES_MAX_CHARS} characters in all");
        faults.add(searches_path, "the search paths are too long", remedy);
    }
    for (index, search) in searches.iter().enumerate() {
        if search != "." && !is_dns_search(search.strip_suffix('.').unwrap_or(search)) {
            faults.add(
                &searches_path.index(index),
                format!("`{search}` is no domain"),
                "write it like svc.example.com",
            );
        }
    }
    let options = &path.field("options");
    for (index, option) in config.options.iter().flatten().enumerate() {
        if option.name.as_deref().unwrap_or_default().is_empty() {
            required(&options.index(index).field("name"), "add the option's name, such as `ndots`", faults);
        }
    }
}
