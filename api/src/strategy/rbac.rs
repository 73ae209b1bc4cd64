//! Roles and their bindings: rules that are whole, and references that stay.

use serde_json::Value;

use super::Json;
use super::causes::Causes;
use super::fill::{each, fill};
use super::place::Place;
use super::rules::{NONE, Rules};
use super::selectors;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Role.
pub(super) static ROLE: Rules = Rules {
    check: |role, causes| role.at("rules").items().for_each(|rule| check_rule(&rule, true, causes)),
    ..NONE
};

/// ClusterRole.
pub(super) static CLUSTER_ROLE: Rules = Rules {
    check: |role, causes| {
        role.at("rules").items().for_each(|rule| check_rule(&rule, false, causes));
        let aggregation = role.at("aggregationRule");
        if !aggregation.is_absent() {
            let selectors = aggregation.at("clusterRoleSelectors");
            causes.required(
                &selectors,
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            );
            selectors.items().for_each(|selector| selectors::check(&selector, causes));
        }
    },
    ..NONE
};

/// RoleBinding.
pub(super) static BINDING: Rules = Rules {
    default: default_binding,
    check: |binding, causes| check_binding(binding, &["Role", "ClusterRole"], causes),
    update,
    ..NONE
};

/// ClusterRoleBinding.
pub(super) static CLUSTER_BINDING: Rules = Rules {
    default: default_binding,
    check: |binding, causes| check_binding(binding, &["ClusterRole"], causes),
    update,
    ..NONE
};

/// Users and groups are of this group, accounts of the core one.
fn default_binding(binding: &mut Json) {
    fill(binding, "roleRef.apiGroup", GROUP);
    for subject in each(binding, "subjects") {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            fill(subject, "apiGroup", GROUP);
        }
    }
}

fn check_rule(rule: &Place<'_, '_>, is_namespaced: bool, causes: &mut Causes) {
    causes.required(&rule.at("verbs"), "verbs must contain at least one value");
    let (groups, resources) = (rule.at("apiGroups"), rule.at("resources"));
    let (names, urls) = (rule.at("resourceNames"), rule.at("nonResourceURLs"));
    if urls.is_empty() {
        causes.required(&groups, "resource rules must supply at least one api group");
        causes.required(&resources, "resource rules must supply at least one resource");
        return;
    }
    if is_namespaced {
        causes.invalid(&urls, "namespaced rules cannot apply to non-resource URLs");
    }
    if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
        causes.invalid(&urls, "rules cannot apply to both regular resources and non-resource URLs");
    }
}

fn check_binding(binding: &Place<'_, '_>, kinds: &[&str], causes: &mut Causes) {
    let role = binding.at("roleRef");
    causes.any_of(&role.at("apiGroup"), &[GROUP]);
    causes.one_of(&role.at("kind"), kinds);
    if causes.required(&role.at("name"), "") {
        causes.path_segment(&role.at("name"));
    }
    for subject in binding.at("subjects").items() {
        causes.required(&subject.at("name"), "");
        let group = subject.at("apiGroup");
        match subject.at("kind").text() {
            "ServiceAccount" => {
                causes.subdomain(&subject.at("name"));
                causes.any_of(&group, &[""]);
                if kinds.len() == 1 || !subject.at("namespace").is_empty() {
                    causes.required(&subject.at("namespace"), "");
                }
            }
            "User" | "Group" => causes.any_of(&group, &[GROUP]),
            _ => causes.one_of(&subject.at("kind"), &["ServiceAccount", "User", "Group"]),
        }
    }
}

fn update(new: &Place<'_, '_>, old: &Place<'_, '_>, causes: &mut Causes) {
    if new.at("roleRef").value() != old.at("roleRef").value() {
        causes.invalid(&new.at("roleRef"), "cannot change roleRef");
    }
}
