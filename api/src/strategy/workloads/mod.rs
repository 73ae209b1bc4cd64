//! The strategies of workload kinds, and their shared rules.

pub(super) mod cron_job;
pub(super) mod daemon_set;
pub(super) mod deployment;
pub(super) mod job;
pub(super) mod replicas;
pub(super) mod stateful_set;

use serde_json::Value;

use super::causes::Causes;
use super::field_value::FieldValue;
use super::kind_strategy::{KindStrategy, NO_OP};
use super::template::{self, TemplateRules};
use super::{Json, selectors};

/// The error for a selector that does not match the pod template.
const NO_MATCH: &str = "`selector` does not match template `labels`";

/// The requirements for templates of pods that are always restarted.
const fn always(kind: &'static str) -> TemplateRules {
    TemplateRules { kind, restart_policies: &["Always"], deadline: false }
}

/// Validates `spec.selector` and `spec.template`, and that they match.
fn check_template(object: &FieldValue<'_, '_>, wanted: &TemplateRules, causes: &mut Causes) {
    check_template_in(object, object.fields().unwrap_or(&Json::new()), wanted, causes);
}

/// Does the same, with the template in `completed`: the object with what its controller adds to pods.
fn check_template_in(
    object: &FieldValue<'_, '_>,
    completed: &Json,
    wanted: &TemplateRules,
    causes: &mut Causes,
) {
    let selector = object.at("spec.selector");
    selectors::check_required(&selector, "workloads", causes);
    template::check(completed, "spec.template", wanted, causes);
    let labels = &object.at("spec.template.metadata.labels");
    if !selectors::is_empty(&selector) && !selectors::matches(&selector, labels.fields()) {
        causes.invalid(labels, NO_MATCH);
    }
}

/// Requires a number or a percentage, such as `3` or `"25%"`.
pub(super) fn int_or_percent(place: &FieldValue<'_, '_>, causes: &mut Causes) {
    match place.value() {
        Value::Null => {}
        Value::Number(_) => causes.not_negative(place),
        _ => match percent(place) {
            None => causes.invalid(place, "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%')"),
            Some(share) if share > 100 => causes.invalid(place, "must not be greater than 100%"),
            Some(_) => {}
        },
    }
}

fn percent(place: &FieldValue<'_, '_>) -> Option<u64> {
    let digits = place.text().strip_suffix('%')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// True for `0`, `0%` and a missing value.
fn is_none(place: &FieldValue<'_, '_>) -> bool {
    place.number().unwrap_or(0) == 0 && percent(place).unwrap_or(0) == 0
}

/// Rejects negative counts in a status, and those above `status.replicas`.
fn check_counts(object: &FieldValue<'_, '_>, counts: &[&str], causes: &mut Causes) {
    let status = object.at("status");
    let all = status.at("replicas").number().unwrap_or(0);
    for field in ["replicas", "observedGeneration", "collisionCount"].iter().chain(counts) {
        let count = status.at(field);
        causes.not_negative(&count);
        if counts.contains(field) && count.number().unwrap_or(0) > all {
            causes.invalid(&count, "cannot be greater than status.replicas");
        }
    }
}

/// The requirements for a PodTemplate: none.
const ANY: TemplateRules = TemplateRules {
    kind: "PodTemplate",
    restart_policies: &["Always", "OnFailure", "Never"],
    deadline: true,
};

/// The strategy of PodTemplates.
pub(in crate::strategy) static POD_TEMPLATE: KindStrategy = KindStrategy {
    default: |object| template::default(object, "template.spec"),
    check: |object, causes| {
        template::check(object.fields().unwrap_or(&Json::new()), "template", &ANY, causes)
    },
    ..NO_OP
};

#[cfg(test)]
mod tests;
