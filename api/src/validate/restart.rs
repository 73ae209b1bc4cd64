//! Validates the restart policy and the restart rules of a container.

use k8s_openapi::api::core::v1::Container;

use super::names::{one_of, required};
use crate::field_error::FieldErrors;
use crate::path::Path;

/// Limit for the restart rules of a container, as in the API.
const RULES_MAX: usize = 20;
/// Limit for the exit codes of a rule, as in the API.
const EXIT_CODES_MAX: usize = 255;

pub(super) fn check(container: &Container, path: &Path<'_>, errors: &mut FieldErrors) {
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
