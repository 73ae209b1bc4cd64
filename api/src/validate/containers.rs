//! Containers among each other: names, ports of the host, and what only some kinds of container may have.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use super::names::required;
use super::{container, handlers};
use crate::fault::Faults;
use crate::path::Path;
use crate::resources::is_sidecar;

/// Volumes of the Pod by name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Volume>;

pub(super) fn check(spec: &PodSpec, volumes: &Volumes<'_>, path: &Path<'_>, faults: &mut Faults) {
    let containers_path = &path.field("containers");
    if spec.containers.is_empty() {
        required(containers_path, "add at least one container", faults);
    }
    let mut names = BTreeSet::new();
    let mut ports = BTreeSet::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let path = &containers_path.index(index);
        container::check(container, spec, volumes, path, faults);
        unique_name(container, &mut names, path, faults);
        unique_host_ports(container, &mut ports, path, faults);
        handlers::of_container(container, spec, path, faults);
    }
    let init_path = &path.field("initContainers");
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let path = &init_path.index(index);
        container::check(container, spec, volumes, path, faults);
        unique_name(container, &mut names, path, faults);
        // Init containers start one after the other: the API compares the ports of each with themselves alone.
        unique_host_ports(container, &mut BTreeSet::new(), path, faults);
        if is_sidecar(container) {
            handlers::of_container(container, spec, path, faults);
        } else {
            no_handlers(container, path, faults);
        }
    }
    if spec.ephemeral_containers.as_ref().is_some_and(|containers| !containers.is_empty()) {
        let what = "ephemeral containers are added to a pod that runs";
        faults.add(&path.field("ephemeralContainers"), what, "remove it from the manifest");
    }
}

fn unique_name<'a>(
    container: &'a Container,
    names: &mut BTreeSet<&'a str>,
    path: &Path<'_>,
    faults: &mut Faults,
) {
    if !container.name.is_empty() && !names.insert(&container.name) {
        let what = format!("two containers are called `{}`", container.name);
        faults.twice(&path.field("name"), what, "give each its own name");
    }
}

type HostPort<'a> = (&'a str, &'a str, i32);

fn unique_host_ports<'a>(
    container: &'a Container,
    taken: &mut BTreeSet<HostPort<'a>>,
    path: &Path<'_>,
    faults: &mut Faults,
) {
    let path = &path.field("ports");
    for (index, port) in container.ports.iter().flatten().enumerate() {
        let Some(number) = port.host_port.filter(|number| *number != 0) else { continue };
        let protocol = port.protocol.as_deref().unwrap_or_default();
        let host_ip = port.host_ip.as_deref().unwrap_or_default();
        if !taken.insert((protocol, host_ip, number)) {
            let what = format!("two ports of this pod want port {number} ({protocol}) of the host");
            faults.add(&path.index(index).field("hostPort"), what, "choose another");
        }
    }
}

fn no_handlers(container: &Container, path: &Path<'_>, faults: &mut Faults) {
    for (set, field) in [
        (container.lifecycle.is_some(), "lifecycle"),
        (container.liveness_probe.is_some(), "livenessProbe"),
        (container.readiness_probe.is_some(), "readinessProbe"),
        (container.startup_probe.is_some(), "startupProbe"),
    ] {
        if set {
            let what = "an init container that ends has none";
            faults.add(
                &path.field(field),
                what,
                "remove it, or add `restartPolicy: Always` to make this a sidecar",
            );
        }
    }
}
