//! One container by itself.

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec};

use super::containers::Volumes;
use super::names::{dns_label, is_port_name, one_of, port_number, required};
use super::{env, mounts, resources, restart, security};
use crate::fault::Faults;
use crate::path::Path;

pub(super) fn check(
    container: &Container,
    spec: &PodSpec,
    volumes: &Volumes<'_>,
    path: &Path<'_>,
    faults: &mut Faults,
) {
    match container.name.as_str() {
        "" => required(&path.field("name"), "add a name, such as `name: web`", faults),
        name => dns_label(name, &path.field("name"), faults),
    }
    image(container.image.as_deref().unwrap_or_default(), &path.field("image"), faults);
    let pull_policy = container.image_pull_policy.as_deref().unwrap_or_default();
    one_of(pull_policy, &["Always", "IfNotPresent", "Never"], &path.field("imagePullPolicy"), faults);
    let message_policy = container.termination_message_policy.as_deref().unwrap_or_default();
    let known = ["File", "FallbackToLogsOnError"];
    one_of(message_policy, &known, &path.field("terminationMessagePolicy"), faults);
    ports(container.ports.as_deref().unwrap_or_default(), &path.field("ports"), faults);
    env::check(container, volumes, path, faults);
    mounts::check(container, volumes, path, faults);
    restart::check(container, path, faults);
    security::container(container, spec, path, faults);
    let claims: Vec<&str> = spec.resource_claims.iter().flatten().map(|claim| claim.name.as_str()).collect();
    if let Some(stated) = &container.resources {
        resources::check(stated, &claims, &path.field("resources"), faults);
    }
    resize(container, path, faults);
}

fn image(image: &str, path: &Path<'_>, faults: &mut Faults) {
    if image.is_empty() {
        required(path, "add an image, such as `image: nginx:1.27`", faults);
    } else if image.trim() != image {
        faults.add(path, "the image begins or ends with a space", format!("write `{}`", image.trim()));
    }
}

fn ports(ports: &[ContainerPort], path: &Path<'_>, faults: &mut Faults) {
    let mut names = std::collections::BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = &path.index(index);
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            if !is_port_name(name) {
                faults.add(
                    &path.field("name"),
                    format!("`{name}` is no name of a port: at most 15 lower case letters, digits and single `-`, at least one letter"),
                    "shorten it, such as `http` or `metrics`",
                );
            } else if !names.insert(name) {
                faults.twice(
                    &path.field("name"),
                    format!("two ports are called `{name}`"),
                    "give each its own name",
                );
            }
        }
        if port.container_port == 0 {
            required(&path.field("containerPort"), "add the port that the container listens on", faults);
        } else {
            port_number(port.container_port, &path.field("containerPort"), faults);
        }
        if let Some(host_port) = port.host_port.filter(|port| *port != 0) {
            port_number(host_port, &path.field("hostPort"), faults);
        }
        if let Some(host_ip) = port.host_ip.as_deref().filter(|ip| !ip.is_empty()) {
            super::names::ip_address(host_ip, &path.field("hostIP"), faults);
        }
        one_of(
            port.protocol.as_deref().unwrap_or_default(),
            &["TCP", "UDP", "SCTP"],
            &path.field("protocol"),
            faults,
        );
    }
}

fn resize(container: &Container, path: &Path<'_>, faults: &mut Faults) {
    let path = &path.field("resizePolicy");
    let mut seen = std::collections::BTreeSet::new();
    for (index, policy) in container.resize_policy.iter().flatten().enumerate() {
        let path = &path.index(index);
        one_of(&policy.resource_name, &["cpu", "memory"], &path.field("resourceName"), faults);
        one_of(
            &policy.restart_policy,
            &["NotRequired", "RestartContainer"],
            &path.field("restartPolicy"),
            faults,
        );
        if !seen.insert(&policy.resource_name) {
            let what = format!("`{}` has two policies", policy.resource_name);
            faults.twice(&path.field("resourceName"), what, "keep one of them");
        }
    }
}
