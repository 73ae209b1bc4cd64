//! Kinds that make pods from a template, and what their rules share.

pub(super) mod cron;
pub(super) mod cron_job;
pub(super) mod daemon_set;
pub(super) mod deployment;
pub(super) mod job;
pub(super) mod pod_template;
pub(super) mod replicas;
pub(super) mod stateful_set;

use serde_json::Value;

use super::causes::Causes;
use super::place::Place;
use super::template::{self, Wanted};
use super::{Json, selectors};

/// What is said of a selector that would not find the pods its template makes.
const NO_MATCH: &str = "`selector` does not match template `labels`";

/// A template of pods that are restarted for ever.
const fn always(kind: &'static str) -> Wanted {
    Wanted { kind, restart_policies: &["Always"], deadline: false }
}

/// Notes what is wrong with `spec.selector` and `spec.template`, and that the one does not find the other.
fn check_template(object: &Place<'_, '_>, wanted: &Wanted, causes: &mut Causes) {
    let selector = object.at("spec.selector");
    selectors::check_some(&selector, "workloads", causes);
    template::check(object.fields().unwrap_or(&Json::new()), "spec.template", wanted, causes);
    let labels = &object.at("spec.template.metadata.labels");
    if !selectors::is_empty(&selector) && !selectors::matches(&selector, labels.fields()) {
        causes.invalid(labels, NO_MATCH);
    }
}

/// A count, or a share of all: `3`, `"25%"`.
pub(super) fn count_or_share(place: &Place<'_, '_>, causes: &mut Causes) {
    match place.value() {
        Value::Null => {}
        Value::Number(_) => causes.not_negative(place),
        _ => match share(place) {
            None => causes.invalid(place, "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%')"),
            Some(share) if share > 100 => causes.invalid(place, "must not be greater than 100%"),
            Some(_) => {}
        },
    }
}

fn share(place: &Place<'_, '_>) -> Option<u64> {
    let digits = place.text().strip_suffix('%')?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// True for `0` and `0%`, and for absence.
fn is_none(place: &Place<'_, '_>) -> bool {
    place.number().unwrap_or(0) == 0 && share(place).unwrap_or(0) == 0
}

/// Notes counts of a status that are negative, and those that are more than `status.replicas`.
fn check_counts(object: &Place<'_, '_>, counts: &[&str], causes: &mut Causes) {
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

#[cfg(test)]
mod tests;
