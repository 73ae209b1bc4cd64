//! Validates a single container.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec};

use super::containers::Volumes;
use super::names::{dns_label, is_port_name, one_of, port_number, required};
use super::{env, mounts, resources, security};
use crate::field_error::FieldErrors;
use crate::path::Path;

pub(super) fn check(
    container: &Container,
    spec: &PodSpec,
    volumes: &Volumes<'_>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    match container.name.as_str() {
        "" => required(&path.field("name"), "add a name, such as `name: web`", errors),
        name => dns_label(name, &path.field("name"), errors),
    }
    image(container.image.as_deref().unwrap_or_default(), &path.field("image"), errors);
    let pull_policy = container.image_pull_policy.as_deref().unwrap_or_default();
    one_of(pull_policy, &["Always", "IfNotPresent", "Never"], &path.field("imagePullPolicy"), errors);
    let message_policy = container.termination_message_policy.as_deref().unwrap_or_default();
    let known = ["File", "FallbackToLogsOnError"];
    one_of(message_policy, &known, &path.field("terminationMessagePolicy"), errors);
    ports(container.ports.as_deref().unwrap_or_default(), &path.field("ports"), errors);
    env::check(container, volumes, path, errors);
    mounts::check(container, volumes, path, errors);
    check_restart(container, path, errors);
    security::container(container, spec, path, errors);
    if let Some(stated) = &container.resources {
        let is_claimed = stated.claims.as_ref().is_some_and(|claims| !claims.is_empty());
        let claims = spec.resource_claims.iter().flatten().filter(|_| is_claimed);
        let claims: BTreeSet<&str> = claims.map(|claim| claim.name.as_str()).collect();
        resources::check(stated, &claims, &path.field("resources"), errors);
    }
    resize(container, path, errors);
}

fn image(image: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if image.is_empty() {
        required(path, "add an image, such as `image: nginx:1.27`", errors);
    } else if image.trim() != image {
        errors.add(path, "the image begins or ends with a space", format!("write `{}`", image.trim()));
    }
}

fn ports(ports: &[ContainerPort], path: &Path<'_>, errors: &mut FieldErrors) {
    let mut names = std::collections::BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = &path.index(index);
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            if !is_port_name(name) {
                errors.add(
                    &path.field("name"),
                    format!("`{name}` is not a valid port name: at most 15 lower case letters, digits and single `-`, at least one letter"),
                    "shorten it, such as `http` or `metrics`",
                );
            } else if !names.insert(name) {
                errors.duplicate(
                    &path.field("name"),
                    format!("two ports are called `{name}`"),
                    "use unique names",
                );
            }
        }
        if port.container_port == 0 {
            required(&path.field("containerPort"), "add the port that the container listens on", errors);
        } else {
            port_number(port.container_port, &path.field("containerPort"), errors);
        }
        if let Some(host_port) = port.host_port.filter(|port| *port != 0) {
            port_number(host_port, &path.field("hostPort"), errors);
        }
        if let Some(host_ip) = port.host_ip.as_deref().filter(|ip| !ip.is_empty()) {
            super::names::ip_address(host_ip, &path.field("hostIP"), errors);
        }
        one_of(
            port.protocol.as_deref().unwrap_or_default(),
            &["TCP", "UDP", "SCTP"],
            &path.field("protocol"),
            errors,
        );
    }
}

fn resize(container: &Container, path: &Path<'_>, errors: &mut FieldErrors) {
    let path = &path.field("resizePolicy");
    let mut seen = std::collections::BTreeSet::new();
    for (index, policy) in container.resize_policy.iter().flatten().enumerate() {
        let path = &path.index(index);
        one_of(&policy.resource_name, &["cpu", "memory"], &path.field("resourceName"), errors);
        one_of(
            &policy.restart_policy,
            &["NotRequired", "RestartContainer"],
            &path.field("restartPolicy"),
            errors,
        );
        if !seen.insert(&policy.resource_name) {
            let what = format!("`{}` has two policies", policy.resource_name);
            errors.duplicate(&path.field("resourceName"), what, "keep one of them");
        }
    }
}

/// Maximum number of restart rules of a container, as in Kubernetes.
const RULES_MAX: usize = 20;
/// Maximum number of exit codes of a rule, as in Kubernetes.
const EXIT_CODES_MAX: usize = 255;

fn check_restart(container: &Container, path: &Path<'_>, errors: &mut FieldErrors) {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    match &container.restart_policy {
        Some(policy) => {
            one_of(policy, &["Always", "OnFailure", "Never"], &path.field("restartPolicy"), errors)
        }
        None if !rules.is_empty() => {
            required(
                &path.field("restartPolicy"),
                "add the policy for when no rule matches: Always, OnFailure or Never",
                errors,
            );
        }
        None => {}
    }
    let path = &path.field("restartPolicyRules");
    if rules.len() > RULES_MAX {
        errors.add(path, format!("there are {} rules", rules.len()), format!("keep {RULES_MAX}"));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = &path.index(index);
        if rule.action == "RestartAllContainers" {
            let remedy = "write `Restart`, which restarts this container alone";
            errors.add(&path.field("action"), "RestartAllContainers is not supported", remedy);
        } else {
            one_of(&rule.action, &["Restart"], &path.field("action"), errors);
        }
        let Some(exit_codes) = &rule.exit_codes else {
            required(&path.field("exitCodes"), "add `exitCodes` with an operator and values", errors);
            continue;
        };
        let path = &path.field("exitCodes");
        one_of(&exit_codes.operator, &["In", "NotIn"], &path.field("operator"), errors);
        let values = exit_codes.values.as_deref().unwrap_or_default();
        if values.is_empty() {
            required(&path.field("values"), "add at least one exit code", errors);
        } else if values.len() > EXIT_CODES_MAX {
            errors.add(
                &path.field("values"),
                format!("there are {} values", values.len()),
                "there are 255 exit codes",
            );
        }
    }
}
