//! Validates the containers of a Pod: unique names, host ports, and the fields that each container type may have.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use super::names::required;
use super::{container, handlers};
use crate::field_error::FieldErrors;
use crate::path::Path;
use crate::resources::is_sidecar;

/// The volumes of the Pod by name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Volume>;

pub(super) fn check(spec: &PodSpec, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let containers_path = &path.field("containers");
    if spec.containers.is_empty() {
        required(containers_path, "add at least one container", errors);
    }
    let mut names = BTreeSet::new();
    let mut ports = BTreeSet::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let path = &containers_path.index(index);
        container::check(container, spec, volumes, path, errors);
        unique_name(container, &mut names, path, errors);
        unique_host_ports(container, &mut ports, path, errors);
        handlers::of_container(container, spec, path, errors);
    }
    let init_path = &path.field("initContainers");
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let path = &init_path.index(index);
        container::check(container, spec, volumes, path, errors);
        unique_name(container, &mut names, path, errors);
        // Init containers run one after the other, so each one is checked only for duplicates in itself.
        unique_host_ports(container, &mut BTreeSet::new(), path, errors);
        if is_sidecar(container) {
            handlers::of_container(container, spec, path, errors);
        } else {
            no_handlers(container, path, errors);
        }
    }
    if spec.ephemeral_containers.as_ref().is_some_and(|containers| !containers.is_empty()) {
        let what = "ephemeral containers can only be added to a running pod";
        errors.add(&path.field("ephemeralContainers"), what, "remove it from the manifest");
    }
}

fn unique_name<'a>(
    container: &'a Container,
    names: &mut BTreeSet<&'a str>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if !container.name.is_empty() && !names.insert(&container.name) {
        let what = format!("two containers are called `{}`", container.name);
        errors.duplicate(&path.field("name"), what, "use unique names");
    }
}

type HostPort<'a> = (&'a str, &'a str, i32);

fn unique_host_ports<'a>(
    container: &'a Container,
    taken: &mut BTreeSet<HostPort<'a>>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let path = &path.field("ports");
    for (index, port) in container.ports.iter().flatten().enumerate() {
        let Some(number) = port.host_port.filter(|number| *number != 0) else { continue };
        let protocol = port.protocol.as_deref().unwrap_or_default();
        let host_ip = port.host_ip.as_deref().unwrap_or_default();
        if !taken.insert((protocol, host_ip, number)) {
            let what = format!("two ports of this pod use host port {number} ({protocol})");
            errors.add(&path.index(index).field("hostPort"), what, "choose another");
        }
    }
}

fn no_handlers(container: &Container, path: &Path<'_>, errors: &mut FieldErrors) {
    for (set, field) in [
        (container.lifecycle.is_some(), "lifecycle"),
        (container.liveness_probe.is_some(), "livenessProbe"),
        (container.readiness_probe.is_some(), "readinessProbe"),
        (container.startup_probe.is_some(), "startupProbe"),
    ] {
        if set {
            let what = "only sidecars and main containers support it";
            errors.add(
                &path.field(field),
                what,
                "remove it, or add `restartPolicy: Always` to make this a sidecar",
            );
        }
    }
}
