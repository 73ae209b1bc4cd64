//! The strategies of Roles, ClusterRoles and their bindings.

use serde_json::Value;

use super::Json;
use super::causes::Causes;
use super::dotted::{each, fill};
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};
use super::selectors;

const GROUP: &str = "rbac.authorization.k8s.io";

/// The strategy of Roles.
pub(super) static ROLE: KindStrategy = KindStrategy {
    check: |role, causes| role.at("rules").items().for_each(|rule| check_rule(&rule, true, causes)),
    ..NO_OP
};

/// The strategy of ClusterRoles.
pub(super) static CLUSTER_ROLE: KindStrategy = KindStrategy {
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
    ..NO_OP
};

/// The strategy of RoleBindings.
pub(super) static BINDING: KindStrategy = KindStrategy {
    default: default_binding,
    check: |binding, causes| check_binding(binding, &["Role", "ClusterRole"], causes),
    update,
    ..NO_OP
};

/// The strategy of ClusterRoleBindings.
pub(super) static CLUSTER_BINDING: KindStrategy = KindStrategy {
    default: default_binding,
    check: |binding, causes| check_binding(binding, &["ClusterRole"], causes),
    update,
    ..NO_OP
};

/// Sets the API group of users and groups. Service accounts are in the core group.
fn default_binding(binding: &mut Json) {
    fill(binding, "roleRef.apiGroup", GROUP);
    for subject in each(binding, "subjects") {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            fill(subject, "apiGroup", GROUP);
        }
    }
}

fn check_rule(rule: &FieldValue<'_, '_>, is_namespaced: bool, causes: &mut Causes) {
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

fn check_binding(binding: &FieldValue<'_, '_>, kinds: &[&str], causes: &mut Causes) {
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

fn update(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    if new.at("roleRef").value() != old.at("roleRef").value() {
        causes.invalid(&new.at("roleRef"), "cannot change roleRef");
    }
}
