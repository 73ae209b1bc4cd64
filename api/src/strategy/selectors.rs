//! Selectors of labels as they stand in objects: whether they are right, and what they select.

use serde_json::Value;

use super::Json;
use super::causes::Causes;
use super::metadata;
use super::place::Place;

/// Notes what is wrong with a selector.
pub(super) fn check(selector: &Place<'_, '_>, causes: &mut Causes) {
    metadata::labels(&selector.at("matchLabels"), causes);
    for expression in selector.at("matchExpressions").items() {
        let values = expression.at("values");
        if causes.required(&expression.at("key"), "") {
            causes.qualified_name(&expression.at("key"));
        }
        match expression.at("operator").text() {
            "In" | "NotIn" => {
                causes.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
                values.items().for_each(|value| causes.label_value(&value));
            }
            "Exists" | "DoesNotExist" => {
                causes.absent(&values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            _ => causes.invalid(&expression.at("operator"), "not a valid selector operator"),
        }
    }
}

/// Notes a selector that is wrong, missing, or selects everything.
pub(super) fn check_some(selector: &Place<'_, '_>, what: &str, causes: &mut Causes) {
    if selector.is_absent() {
        return causes.missing(selector, "");
    }
    check(selector, causes);
    if is_empty(selector) {
        causes.invalid(selector, &format!("empty selector is invalid for {what}"));
    }
}

/// True when a selector asks for nothing.
pub(super) fn is_empty(selector: &Place<'_, '_>) -> bool {
    selector.at("matchLabels").is_empty() && selector.at("matchExpressions").is_empty()
}

/// True when the labels have what the selector asks for.
pub(super) fn matches(selector: &Place<'_, '_>, labels: Option<&Json>) -> bool {
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let exact = selector.at("matchLabels");
    let exact = exact.entries().all(|(key, value)| label(key) == Some(value.text()));
    let expressions = selector.at("matchExpressions");
    let holds = |expression: &Place<'_, '_>| {
        let found = label(expression.at("key").text());
        let values = expression.at("values");
        let is_listed = || values.items().any(|value| found == Some(value.text()));
        match expression.at("operator").text() {
            "In" => is_listed(),
            "NotIn" => !is_listed(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            _ => false,
        }
    };
    exact && expressions.items().all(|expression| holds(&expression))
}
