//! Validates the spec of a Pod.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::names::{
    dns_label, dns_subdomain, is_qualified_name, label_value, not_negative, one_of, qualified_name, required,
    within,
};
use super::{containers, network, resources, scheduling, security, volumes};
use crate::field_error::{FieldErrors, Target};
use crate::path::Path;
use crate::resources::pod_requests;

/// Limit for `activeDeadlineSeconds`; the API stores 32 bits.
const DEADLINE_MAX_SECONDS: i64 = i32::MAX as i64;
/// Limit for a host name on Linux.
const HOSTNAME_MAX: usize = 64;
/// Maximum number of `evictionResponders`, as in Kubernetes.
const RESPONDERS_MAX: usize = 10;

pub(super) fn check(pod: &Pod, errors: &mut FieldErrors) {
    let path = &Path::ROOT.field("spec");
    let Some(spec) = &pod.spec else {
        return required(path, "add `spec` with at least one container", errors);
    };
    let known = volumes::check(spec, path, errors);
    containers::check(spec, &known, path, errors);
    policies(spec, path, errors);
    names(spec, path, errors);
    network::check(spec, path, errors);
    security::pod(spec, path, errors);
    scheduling::check(spec, path, errors);
    pod_resources(spec, path, errors);
    apparmor_annotations(pod, errors);
}

fn policies(spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    let restart = spec.restart_policy.as_deref().unwrap_or_default();
    one_of(restart, &["Always", "OnFailure", "Never"], &path.field("restartPolicy"), errors);
    if let Some(policy) = &spec.preemption_policy {
        one_of(policy, &["PreemptLowerPriority", "Never"], &path.field("preemptionPolicy"), errors);
    }
    if let Some(seconds) = spec.active_deadline_seconds {
        within(seconds, 1, DEADLINE_MAX_SECONDS, &path.field("activeDeadlineSeconds"), errors);
    }
    if let Some(seconds) = spec.termination_grace_period_seconds {
        not_negative(seconds, &path.field("terminationGracePeriodSeconds"), errors);
    }
    if let Some(os) = &spec.os {
        one_of(&os.name, &["linux", "windows"], &path.field("os").field("name"), errors);
    }
    let responders = spec.eviction_responders.as_deref().unwrap_or_default();
    let responders_path = path.field("evictionResponders");
    if responders.len() > RESPONDERS_MAX {
        errors.add(
            &responders_path,
            format!("there are {}", responders.len()),
            format!("keep {RESPONDERS_MAX}"),
        );
    }
    for (index, responder) in responders.iter().enumerate() {
        let path = &responders_path.index(index);
        if !responder.name.contains('/') || !is_qualified_name(&responder.name) {
            errors.add(
                &path.field("name"),
                format!("`{}` has no domain prefix", responder.name),
                "write it like example.com/name",
            );
        }
        within(i64::from(responder.priority), 0, 100_000, &path.field("priority"), errors);
    }
}

fn names(spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    let subdomains = [
        (&spec.service_account_name, "serviceAccountName"),
        (&spec.node_name, "nodeName"),
        (&spec.priority_class_name, "priorityClassName"),
        (&spec.runtime_class_name, "runtimeClassName"),
    ];
    for (name, field) in subdomains {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            dns_subdomain(name, &path.field(field), errors);
        }
    }
    for (name, field) in [(&spec.hostname, "hostname"), (&spec.subdomain, "subdomain")] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            dns_label(name, &path.field(field), errors);
        }
    }
    if let Some(group) = spec.scheduling_group.as_ref().and_then(|group| group.pod_group_name.as_ref()) {
        dns_subdomain(group, &path.field("schedulingGroup").field("podGroupName"), errors);
    }
    if let Some(name) = spec.hostname_override.as_deref().filter(|name| !name.is_empty()) {
        let path = &path.field("hostnameOverride");
        dns_subdomain(name, path, errors);
        if name.len() > HOSTNAME_MAX {
            errors.add(
                path,
                format!("it has {} characters, {HOSTNAME_MAX} are allowed", name.len()),
                "shorten it",
            );
        }
        if spec.host_network == Some(true) {
            errors.add(
                path,
                "a pod with `hostNetwork` has the name of the host",
                "remove it, or remove `hostNetwork`",
            );
        }
        if spec.set_hostname_as_fqdn == Some(true) {
            errors.add(path, "`setHostnameAsFQDN` is set too", "remove one of them");
        }
    }
    let selector = path.field("nodeSelector");
    for (key, value) in spec.node_selector.iter().flatten() {
        let path = &selector.key(key);
        qualified_name(key, path, errors);
        label_value(value, path, errors);
    }
    let gates = path.field("readinessGates");
    for (index, gate) in spec.readiness_gates.iter().flatten().enumerate() {
        qualified_name(&gate.condition_type, &gates.index(index).field("conditionType"), errors);
    }
    let secrets = path.field("imagePullSecrets");
    for (index, secret) in spec.image_pull_secrets.iter().flatten().enumerate() {
        if !secret.name.is_empty() {
            dns_subdomain(&secret.name, &secrets.index(index).field("name"), errors);
        }
    }
}

/// Validates pod-level resources and the overhead.
fn pod_resources(spec: &PodSpec, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(overhead) = &spec.overhead {
        resources::list(overhead, &path.field("overhead"), errors);
    }
    let Some(stated) = &spec.resources else { return };
    let path = &path.field("resources");
    resources::check(stated, &BTreeSet::new(), path, errors);
    if stated.claims.is_some() {
        errors.add(
            &path.field("claims"),
            "pod-level resources cannot have claims",
            "name them in the containers",
        );
    }
    let containers = pod_requests(&PodSpec { resources: None, overhead: None, ..spec.clone() });
    let requests = crate::resources::list(stated.requests.as_ref());
    for (name, sum) in containers {
        if requests.get(&name).is_some_and(|request| *request < sum) {
            let what = format!("the containers together request {sum}");
            errors.add(&path.field("requests").key(&name), what, "request at least as much for the pod");
        }
    }
}

/// The prefix of the annotations that held AppArmor profiles before there was a field.
pub(crate) const APPARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

fn apparmor_annotations(pod: &Pod, errors: &mut FieldErrors) {
    let Some(spec) = &pod.spec else { return };
    let metadata = Path::ROOT.field("metadata");
    let path = metadata.field("annotations");
    let names: BTreeSet<&str> = (spec.containers.iter().chain(spec.init_containers.iter().flatten()))
        .map(|container| container.name.as_str())
        .collect();
    for (key, profile) in pod.metadata.annotations.iter().flatten() {
        let Some(name) = key.strip_prefix(APPARMOR_PREFIX) else { continue };
        if !names.contains(name) {
            errors.add_at(
                &path.key(key),
                Target::Name,
                format!("there is no container `{name}`"),
                "name one of the pod's",
            );
        }
        let known = matches!(profile.as_str(), "" | "runtime/default" | "unconfined")
            || profile.starts_with("localhost/");
        if !known {
            errors.add(
                &path.key(key),
                format!("`{profile}` is not an AppArmor profile"),
                "write runtime/default, unconfined or localhost/NAME",
            );
        }
    }
}
