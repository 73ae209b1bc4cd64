//! Restart policies of single containers, and their rules.

use k8s_openapi::api::core::v1::Container;

use super::names::{one_of, required};
use crate::fault::Faults;
use crate::path::Path;

/// Rules of one container.
const RULES_MAX: usize = 20;
/// Exit codes of one rule: there are no more.
const EXIT_CODES_MAX: usize = 255;

pub(super) fn check(container: &Container, path: &Path<'_>, faults: &mut Faults) {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    match &container.restart_policy {
        Some(policy) => {
            one_of(policy, &["Always", "OnFailure", "Never"], &path.field("restartPolicy"), faults)
        }
        None if !rules.is_empty() => {
            required(
                &path.field("restartPolicy"),
                "add what holds when no rule matches: Always, OnFailure or Never",
                faults,
            );
        }
        None => {}
    }
    let path = &path.field("restartPolicyRules");
    if rules.len() > RULES_MAX {
        faults.add(path, format!("there are {} rules", rules.len()), format!("keep {RULES_MAX}"));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = &path.index(index);
        one_of(&rule.action, &["Restart"], &path.field("action"), faults);
        let Some(exit_codes) = &rule.exit_codes else {
            required(&path.field("exitCodes"), "add `exitCodes` with an operator and values", faults);
            continue;
        };
        let path = &path.field("exitCodes");
        one_of(&exit_codes.operator, &["In", "NotIn"], &path.field("operator"), faults);
        let values = exit_codes.values.as_deref().unwrap_or_default();
        if values.is_empty() {
            required(&path.field("values"), "add at least one exit code", faults);
        } else if values.len() > EXIT_CODES_MAX {
            faults.add(
                &path.field("values"),
                format!("there are {} values", values.len()),
                "there are 255 exit codes",
            );
        }
    }
}
