//! A Pod's spec as a whole, and the fields that have no file of their own.

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::names::{
    dns_label, dns_subdomain, is_qualified_name, label_value, not_negative, one_of, qualified_name, required,
    within,
};
use super::{containers, network, resources, scheduling, security, volumes};
use crate::fault::{Aim, Faults};
use crate::path::Path;
use crate::resources::pod_requests;

/// Seconds that fit into what the API keeps them in.
const DEADLINE_MAX_SECONDS: i64 = i32::MAX as i64;
/// Characters of a host name that Linux takes.
const HOSTNAME_MAX: usize = 64;
/// Responders of one eviction.
const RESPONDERS_MAX: usize = 10;

pub(super) fn check(pod: &Pod, faults: &mut Faults) {
    let path = &Path::ROOT.field("spec");
    let Some(spec) = &pod.spec else {
        return required(path, "add `spec` with at least one container", faults);
    };
    let known = volumes::check(spec, path, faults);
    containers::check(spec, &known, path, faults);
    policies(spec, path, faults);
    names(spec, path, faults);
    network::check(spec, path, faults);
    security::pod(spec, path, faults);
    scheduling::check(spec, path, faults);
    pod_resources(spec, path, faults);
    apparmor_annotations(pod, faults);
}

fn policies(spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    let restart = spec.restart_policy.as_deref().unwrap_or_default();
    one_of(restart, &["Always", "OnFailure", "Never"], &path.field("restartPolicy"), faults);
    if let Some(policy) = &spec.preemption_policy {
        one_of(policy, &["PreemptLowerPriority", "Never"], &path.field("preemptionPolicy"), faults);
    }
    if let Some(seconds) = spec.active_deadline_seconds {
        within(seconds, 1, DEADLINE_MAX_SECONDS, &path.field("activeDeadlineSeconds"), faults);
    }
    if let Some(seconds) = spec.termination_grace_period_seconds {
        not_negative(seconds, &path.field("terminationGracePeriodSeconds"), faults);
    }
    if let Some(os) = &spec.os {
        one_of(&os.name, &["linux", "windows"], &path.field("os").field("name"), faults);
    }
    let responders = spec.eviction_responders.as_deref().unwrap_or_default();
    let responders_path = path.field("evictionResponders");
    if responders.len() > RESPONDERS_MAX {
        faults.add(
            &responders_path,
            format!("there are {}", responders.len()),
            format!("keep {RESPONDERS_MAX}"),
        );
    }
    for (index, responder) in responders.iter().enumerate() {
        let path = &responders_path.index(index);
        if !responder.name.contains('/') || !is_qualified_name(&responder.name) {
            faults.add(
                &path.field("name"),
                format!("`{}` has no domain in front", responder.name),
                "write it like example.com/name",
            );
        }
        within(i64::from(responder.priority), 0, 100_000, &path.field("priority"), faults);
    }
}

fn names(spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    let subdomains = [
        (&spec.service_account_name, "serviceAccountName"),
        (&spec.node_name, "nodeName"),
        (&spec.priority_class_name, "priorityClassName"),
        (&spec.runtime_class_name, "runtimeClassName"),
    ];
    for (name, field) in subdomains {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            dns_subdomain(name, &path.field(field), faults);
        }
    }
    for (name, field) in [(&spec.hostname, "hostname"), (&spec.subdomain, "subdomain")] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            dns_label(name, &path.field(field), faults);
        }
    }
    if let Some(group) = spec.scheduling_group.as_ref().and_then(|group| group.pod_group_name.as_ref()) {
        dns_subdomain(group, &path.field("schedulingGroup").field("podGroupName"), faults);
    }
    if let Some(name) = spec.hostname_override.as_deref().filter(|name| !name.is_empty()) {
        let path = &path.field("hostnameOverride");
        dns_subdomain(name, path, faults);
        if name.len() > HOSTNAME_MAX {
            faults.add(
                path,
                format!("it has {} characters, {HOSTNAME_MAX} are allowed", name.len()),
                "shorten it",
            );
        }
        if spec.host_network == Some(true) {
            faults.add(
                path,
                "a pod in the host's network has the host's name",
                "remove it, or remove `hostNetwork`",
            );
        }
        if spec.set_hostname_as_fqdn == Some(true) {
            faults.add(path, "`setHostnameAsFQDN` names the pod, too", "remove one of them");
        }
    }
    let selector = path.field("nodeSelector");
    for (key, value) in spec.node_selector.iter().flatten() {
        let path = &selector.key(key);
        qualified_name(key, path, faults);
        label_value(value, path, faults);
    }
    let gates = path.field("readinessGates");
    for (index, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        qualified_name(&gate.condition_type, &gates.index(index).field("conditionType"), faults);
    }
    let secrets = path.field("imagePullSecrets");
    for (index, secret) in spec.image_pull_secrets.iter().flatten().enumerate() {
        if !secret.name.is_empty() {
            dns_subdomain(&secret.name, &secrets.index(index).field("name"), faults);
        }
    }
}

/// What the Pod states for all its containers, and what a runtime adds.
fn pod_resources(spec: &PodSpec, path: &Path<'_>, faults: &mut Faults) {
    if let Some(overhead) = &spec.overhead {
        resources::list(overhead, &path.field("overhead"), faults);
    }
    let Some(stated) = &spec.resources else { return };
    let path = &path.field("resources");
    resources::check(stated, &[], path, faults);
    if stated.claims.is_some() {
        faults.add(&path.field("claims"), "a pod as a whole has no claims", "name them in the containers");
    }
    let containers = pod_requests(&PodSpec { resources: None, overhead: None, ..spec.clone() });
    let requests = crate::resources::list(stated.requests.as_ref());
    for (name, sum) in containers {
        if requests.get(&name).is_some_and(|request| *request < sum) {
            let what = format!("the containers together request {sum}");
            faults.add(&path.field("requests").key(&name), what, "request at least as much for the pod");
        }
    }
}

/// The key under which an AppArmor profile was named before there was a field for it.
pub(crate) const APPARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

fn apparmor_annotations(pod: &Pod, faults: &mut Faults) {
    let Some(spec) = &pod.spec else { return };
    let metadata = Path::ROOT.field("metadata");
    let path = metadata.field("annotations");
    for (key, profile) in pod.metadata.annotations.iter().flatten() {
        let Some(name) = key.strip_prefix(APPARMOR_PREFIX) else { continue };
        let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        if !containers.any(|container| container.name == name) {
            faults.aim(
                &path.key(key),
                Aim::Name,
                format!("there is no container `{name}`"),
                "name one of the pod's",
            );
        }
        let known = matches!(profile.as_str(), "" | "runtime/default" | "unconfined")
            || profile.starts_with("localhost/");
        if !known {
            faults.add(
                &path.key(key),
                format!("`{profile}` is no AppArmor profile"),
                "write runtime/default, unconfined or localhost/NAME",
            );
        }
    }
}
