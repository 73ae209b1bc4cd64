//! Validates label selectors and node selectors.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::names::{dns_subdomain, label_value, one_of, qualified_name, required};
use crate::field_error::FieldErrors;
use crate::path::Path;

/// Validates a label selector.
pub(super) fn labels(selector: &LabelSelector, path: &Path<'_>, errors: &mut FieldErrors) {
    let matches = &path.field("matchLabels");
    for (key, value) in selector.match_labels.iter().flatten() {
        qualified_name(key, &matches.key(key), errors);
        label_value(value, &matches.key(key), errors);
    }
    let expressions = &path.field("matchExpressions");
    for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let path = &expressions.index(index);
        qualified_name(&expression.key, &path.field("key"), errors);
        let values = expression.values.as_deref().unwrap_or_default();
        let known = ["In", "NotIn", "Exists", "DoesNotExist"];
        one_of(&expression.operator, &known, &path.field("operator"), errors);
        count_of_values(&expression.operator, values, &path.field("values"), errors);
        for (index, value) in values.iter().enumerate() {
            label_value(value, &path.field("values").index(index), errors);
        }
    }
}

/// Validates a node selector term. For preferences, label values are not checked.
pub(super) fn node_term(term: &NodeSelectorTerm, required: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let expressions = &path.field("matchExpressions");
    for (index, expression) in term.match_expressions.iter().flatten().enumerate() {
        let path = &expressions.index(index);
        let values = expression.values.as_deref().unwrap_or_default();
        let known = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
        one_of(&expression.operator, &known, &path.field("operator"), errors);
        count_of_values(&expression.operator, values, &path.field("values"), errors);
        qualified_name(&expression.key, &path.field("key"), errors);
        for (index, value) in values.iter().enumerate().filter(|_| required) {
            label_value(value, &path.field("values").index(index), errors);
        }
    }
    let fields = &path.field("matchFields");
    for (index, field) in term.match_fields.iter().flatten().enumerate() {
        node_field(field, &fields.index(index), errors);
    }
}

fn node_field(field: &NodeSelectorRequirement, path: &Path<'_>, errors: &mut FieldErrors) {
    one_of(&field.operator, &["In", "NotIn"], &path.field("operator"), errors);
    one_of(&field.key, &["metadata.name"], &path.field("key"), errors);
    let values = field.values.as_deref().unwrap_or_default();
    if values.len() != 1 {
        required(&path.field("values"), "write exactly one name of a node", errors);
    }
    for (index, value) in values.iter().enumerate() {
        dns_subdomain(value, &path.field("values").index(index), errors);
    }
}

fn count_of_values(operator: &str, values: &[String], path: &Path<'_>, errors: &mut FieldErrors) {
    match operator {
        "In" | "NotIn" if values.is_empty() => required(path, "add at least one value", errors),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.add(
                path,
                format!("{operator} takes no value"),
                "remove the values, or write `operator: In`",
            );
        }
        "Gt" | "Lt" if values.len() != 1 => required(path, "write exactly one number", errors),
        _ => {}
    }
}
