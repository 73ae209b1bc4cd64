//! Defaults of a container: image pull policy, probes, ports, handlers, requests.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, EphemeralContainer, HTTPGetAction, Lifecycle, Probe,
    ResourceRequirements,
};

use super::{fill, fill_number};

/// Fills in a container or an init container.
pub(super) fn container(container: &mut Container) {
    let policy = pull_policy(container.image.as_deref().unwrap_or_default());
    fill(&mut container.image_pull_policy, policy);
    fill(&mut container.termination_message_path, "/dev/termination-log");
    fill(&mut container.termination_message_policy, "File");
    ports(container.ports.as_deref_mut());
    env(container.env.as_deref_mut());
    let probes =
        [&mut container.liveness_probe, &mut container.readiness_probe, &mut container.startup_probe];
    probes.into_iter().flatten().for_each(probe);
    container.lifecycle.iter_mut().for_each(lifecycle);
    container.resources.iter_mut().for_each(requests_from_limits);
}

/// Fills in an ephemeral container; it has neither ports nor probes of its own that count.
pub(super) fn ephemeral(container: &mut EphemeralContainer) {
    let policy = pull_policy(container.image.as_deref().unwrap_or_default());
    fill(&mut container.image_pull_policy, policy);
    fill(&mut container.termination_message_path, "/dev/termination-log");
    fill(&mut container.termination_message_policy, "File");
    ports(container.ports.as_deref_mut());
    env(container.env.as_deref_mut());
}

/// An image that is pinned by a tag or a digest is pulled once; `latest`, said or meant, each time.
pub(super) fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
        None if digest.is_some() => "IfNotPresent",
        None => "Always",
    }
}

fn ports(ports: Option<&mut [ContainerPort]>) {
    for port in ports.unwrap_or_default() {
        fill(&mut port.protocol, "TCP");
    }
}

fn env(variables: Option<&mut [EnvVar]>) {
    for variable in variables.unwrap_or_default() {
        let Some(source) = &mut variable.value_from else { continue };
        if let Some(field) = &mut source.field_ref {
            fill(&mut field.api_version, "v1");
        }
        if let Some(file_key) = &mut source.file_key_ref {
            file_key.optional.get_or_insert(false);
        }
    }
}

fn probe(probe: &mut Probe) {
    fill_number(&mut probe.timeout_seconds, 1);
    fill_number(&mut probe.period_seconds, 10);
    fill_number(&mut probe.success_threshold, 1);
    fill_number(&mut probe.failure_threshold, 3);
    probe.http_get.iter_mut().for_each(http_get);
    if let Some(grpc) = &mut probe.grpc {
        grpc.service.get_or_insert_default();
    }
}

fn lifecycle(lifecycle: &mut Lifecycle) {
    for handler in [&mut lifecycle.post_start, &mut lifecycle.pre_stop].into_iter().flatten() {
        handler.http_get.iter_mut().for_each(http_get);
    }
}

fn http_get(action: &mut HTTPGetAction) {
    fill(&mut action.path, "/");
    fill(&mut action.scheme, "HTTP");
}

/// A limit without a request is a request, too.
fn requests_from_limits(resources: &mut ResourceRequirements) {
    let Some(limits) = &resources.limits else { return };
    let requests = resources.requests.get_or_insert_default();
    for (name, limit) in limits {
        requests.entry(name.clone()).or_insert_with(|| limit.clone());
    }
}
