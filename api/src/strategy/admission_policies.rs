//! The strategies of admission policies and their bindings.

use serde_json::{Value, json};

use super::Json;
use super::causes::Causes;
use super::dotted::{each, fill, fill_all, object_at};
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};
use super::selectors;

/// The strategy of ValidatingAdmissionPolicies.
pub(super) static VALIDATING: KindStrategy = KindStrategy {
    default,
    check: |policy, causes| {
        check(policy, causes);
        let spec = policy.at("spec");
        if spec.at("validations").is_empty() && spec.at("auditAnnotations").is_empty() {
            causes.missing(
                &spec.at("validations"),
                "validations or auditAnnotations must contain at least one item",
            );
        }
        for validation in spec.at("validations").items() {
            causes.required(&validation.at("expression"), "expression is not specified");
        }
        causes.unique(&spec.at("auditAnnotations"), "key");
    },
    ..NO_OP
};

/// The strategy of MutatingAdmissionPolicies.
pub(super) static MUTATING: KindStrategy = KindStrategy {
    default: |policy| {
        default(policy);
        fill(policy, "spec.reinvocationPolicy", "Never");
    },
    check: |policy, causes| {
        check(policy, causes);
        let spec = policy.at("spec");
        causes.required(&spec.at("mutations"), "mutations must contain at least one item");
        for mutation in spec.at("mutations").items() {
            causes.one_of(&mutation.at("patchType"), &["ApplyConfiguration", "JSONPatch"]);
        }
        causes.any_of(&spec.at("reinvocationPolicy"), &["IfNeeded", "Never"]);
    },
    ..NO_OP
};

/// The strategy of ValidatingAdmissionPolicyBindings.
pub(super) static VALIDATING_BINDING: KindStrategy = KindStrategy {
    default: default_binding,
    check: |binding, causes| {
        check_binding(binding, causes);
        let actions = binding.at("spec.validationActions");
        causes.required(&actions, "");
        for action in actions.items() {
            causes.one_of(&action, &["Audit", "Deny", "Warn"]);
        }
        let has = |name: &str| actions.items().any(|action| action.text() == name);
        if has("Deny") && has("Warn") {
            causes.invalid(&actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)");
        }
    },
    ..NO_OP
};

/// The strategy of MutatingAdmissionPolicyBindings.
pub(super) static MUTATING_BINDING: KindStrategy =
    KindStrategy { default: default_binding, check: check_binding, ..NO_OP };

fn default(policy: &mut Json) {
    fill(policy, "spec.failurePolicy", "Fail");
    default_match(policy, "spec.matchConstraints");
}

fn default_binding(binding: &mut Json) {
    default_match(binding, "spec.matchResources");
}

/// Sets the defaults of match rules: they match all namespaces, all labels, and equivalent versions.
fn default_match(object: &mut Json, path: &str) {
    let Some(matched) = object_at(object, path) else { return };
    let all = [
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
        ("matchPolicy", Value::from("Equivalent")),
    ];
    fill_all(matched, &all);
    for list in ["resourceRules", "excludeResourceRules"] {
        each(matched, list).for_each(|rule| fill(rule, "scope", "*"));
    }
}

fn check(policy: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = policy.at("spec");
    causes.any_of(&spec.at("failurePolicy"), &["Fail", "Ignore"]);
    let matched = spec.at("matchConstraints");
    if matched.is_absent() {
        causes.missing(&matched, "");
    } else {
        causes.required(&matched.at("resourceRules"), "");
        check_match(&matched, causes);
    }
    if !spec.at("paramKind").is_absent() {
        causes.required(&spec.at("paramKind.apiVersion"), "");
        causes.required(&spec.at("paramKind.kind"), "");
    }
    for list in ["variables", "matchConditions"] {
        causes.unique(&spec.at(list), "name");
        for item in spec.at(list).items() {
            causes.required(&item.at("name"), "");
            causes.required(&item.at("expression"), "");
        }
    }
}

fn check_binding(binding: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = binding.at("spec");
    causes.required(&spec.at("policyName"), "");
    causes.subdomain(&spec.at("policyName"));
    check_match(&spec.at("matchResources"), causes);
    let parameters = spec.at("paramRef");
    if !parameters.is_absent() && parameters.at("name").is_empty() == parameters.at("selector").is_absent() {
        causes.forbidden(&parameters, "exactly one of name and selector must be specified");
    }
}

fn check_match(matched: &FieldValue<'_, '_>, causes: &mut Causes) {
    causes.any_of(&matched.at("matchPolicy"), &["Equivalent", "Exact"]);
    for selector in ["namespaceSelector", "objectSelector"] {
        selectors::check(&matched.at(selector), causes);
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in matched.at(list).items() {
            super::webhooks::check_rule(&rule, causes);
        }
    }
}
