//! Validates and evaluates label selectors in JSON.

use serde_json::Value;

use super::Json;
use super::causes::Causes;
use super::field_value::FieldValue;
use super::metadata;

/// Validates a selector.
pub(super) fn check(selector: &FieldValue<'_, '_>, causes: &mut Causes) {
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

/// Validates a selector that must exist and must not be empty.
pub(super) fn check_required(selector: &FieldValue<'_, '_>, what: &str, causes: &mut Causes) {
    if selector.is_absent() {
        return causes.missing(selector, "");
    }
    check(selector, causes);
    if is_empty(selector) {
        causes.invalid(selector, &format!("empty selector is invalid for {what}"));
    }
}

/// True for a selector without requirements.
pub(super) fn is_empty(selector: &FieldValue<'_, '_>) -> bool {
    selector.at("matchLabels").is_empty() && selector.at("matchExpressions").is_empty()
}

/// True if the selector matches the labels.
pub(super) fn matches(selector: &FieldValue<'_, '_>, labels: Option<&Json>) -> bool {
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let exact = selector.at("matchLabels");
    let exact = exact.entries().all(|(key, value)| label(key) == Some(value.text()));
    let expressions = selector.at("matchExpressions");
    let holds = |expression: &FieldValue<'_, '_>| {
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
