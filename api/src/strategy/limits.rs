//! LimitRanges and ResourceQuotas: how much one may take, and how much all.

use serde_json::Value;

use super::Json;
use super::causes::Causes;
use super::fill::{each, fields_at};
use super::place::Place;
use super::rules::{NONE, Rules};
use crate::quantity::Quantity;
use crate::validate::names;

/// LimitRange.
pub(super) static RANGE: Rules =
    Rules { default: |range| each(range, "spec.limits").for_each(default_item), check: check_range, ..NONE };

/// ResourceQuota.
pub(super) static QUOTA: Rules = Rules {
    check: check_quota,
    frozen: &["spec.scopes"],
    status: |new, _, causes| {
        for list in ["hard", "used"] {
            new.at("status").at(list).entries().for_each(|(_, amount)| causes.amount(&amount));
        }
    },
    ..NONE
};

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// For containers, what is not said follows from what is: the limit from the most, the request from the limit or least.
fn default_item(item: &mut Json) {
    if item.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(Value::Object(amounts)) = item.get(from).cloned() else { continue };
        let Some(filled) = fields_at(item, to) else { continue };
        for (name, amount) in amounts {
            filled.entry(name).or_insert(amount);
        }
    }
}

fn check_range(range: &Place<'_, '_>, causes: &mut Causes) {
    let limits = range.at("spec.limits");
    causes.unique(&limits, "type");
    for item in limits.items() {
        let kind = item.at("type");
        if causes.required(&kind, "") {
            causes.qualified_name(&kind);
        }
        if kind.text() == "Pod" {
            for field in ["default", "defaultRequest"] {
                causes.absent(&item.at(field), "may not be specified when `type` is 'Pod'");
            }
        }
        if kind.text() == "PersistentVolumeClaim" {
            let has = |field: &str| !item.at(field).key("storage").is_absent();
            if !has("min") && !has("max") {
                let why = "either minimum or maximum storage value is required, but neither was provided";
                causes.missing(&item, why);
            }
        }
        // Each is at most the next, as far as they are told.
        let order = ["min", "defaultRequest", "default", "max"];
        for (at, less) in order.iter().enumerate() {
            for more in &order[at + 1..] {
                ordered(&item.at(less), &item.at(more), less, more, causes);
            }
        }
    }
}

fn ordered(small: &Place<'_, '_>, large: &Place<'_, '_>, less: &str, more: &str, causes: &mut Causes) {
    for (name, amount) in small.entries() {
        let read = |place: &Place<'_, '_>| place.text().parse::<Quantity>().ok();
        let limit = large.key(name);
        if let (Some(value), Some(most)) = (read(&amount), read(&limit))
            && value > most
        {
            causes.invalid(&amount, &format!("{less} value {value} is greater than {more} value {most}"));
        }
    }
}

fn check_quota(quota: &Place<'_, '_>, causes: &mut Causes) {
    let spec = quota.at("spec");
    for (name, amount) in spec.at("hard").entries() {
        if !names::is_qualified_name(name) {
            causes.invalid(
                &amount,
                &format!("`{name}` is no resource: write it like pods, requests.cpu or count/jobs.batch"),
            );
        }
        causes.amount(&amount);
    }
    for scope in spec.at("scopes").items() {
        causes.one_of(&scope, &SCOPES);
    }
    for expression in spec.at("scopeSelector.matchExpressions").items() {
        causes.one_of(&expression.at("scopeName"), &SCOPES);
        let values = expression.at("values");
        match expression.at("operator").text() {
            "In" | "NotIn" => {
                causes.required(&values, "must be at least one value when `operator` is 'In' or 'NotIn'");
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                causes.invalid(&values, "must be no value when `operator` is 'Exists' or 'DoesNotExist'");
            }
            "Exists" | "DoesNotExist" => {}
            _ => causes.invalid(&expression.at("operator"), "not a valid selector operator"),
        }
    }
}
