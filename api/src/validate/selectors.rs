//! What selects Pods or nodes by their labels.

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::names::{dns_subdomain, label_value, one_of, qualified_name, required};
use crate::fault::Faults;
use crate::path::Path;

/// Checks a selector of labels.
pub(super) fn labels(selector: &LabelSelector, path: &Path<'_>, faults: &mut Faults) {
    let matches = &path.field("matchLabels");
    for (key, value) in selector.match_labels.iter().flatten() {
        qualified_name(key, &matches.key(key), faults);
        label_value(value, &matches.key(key), faults);
    }
    let expressions = &path.field("matchExpressions");
    for (index, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let path = &expressions.index(index);
        qualified_name(&expression.key, &path.field("key"), faults);
        let values = expression.values.as_deref().unwrap_or_default();
        let known = ["In", "NotIn", "Exists", "DoesNotExist"];
        one_of(&expression.operator, &known, &path.field("operator"), faults);
        count_of_values(&expression.operator, values, &path.field("values"), faults);
        for (index, value) in values.iter().enumerate() {
            label_value(value, &path.field("values").index(index), faults);
        }
    }
}

/// Checks one alternative of a node selector. Values that no label has are let through where they only prefer.
pub(super) fn node_term(term: &NodeSelectorTerm, required: bool, path: &Path<'_>, faults: &mut Faults) {
    let expressions = &path.field("matchExpressions");
    for (index, expression) in term.match_expressions.iter().flatten().enumerate() {
        let path = &expressions.index(index);
        let values = expression.values.as_deref().unwrap_or_default();
        let known = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
        one_of(&expression.operator, &known, &path.field("operator"), faults);
        count_of_values(&expression.operator, values, &path.field("values"), faults);
        qualified_name(&expression.key, &path.field("key"), faults);
        for (index, value) in values.iter().enumerate().filter(|_| required) {
            label_value(value, &path.field("values").index(index), faults);
        }
    }
    let fields = &path.field("matchFields");
    for (index, field) in term.match_fields.iter().flatten().enumerate() {
        node_field(field, &fields.index(index), faults);
    }
}

fn node_field(field: &NodeSelectorRequirement, path: &Path<'_>, faults: &mut Faults) {
    one_of(&field.operator, &["In", "NotIn"], &path.field("operator"), faults);
    one_of(&field.key, &["metadata.name"], &path.field("key"), faults);
    let values = field.values.as_deref().unwrap_or_default();
    if values.len() != 1 {
        required(&path.field("values"), "write exactly one name of a node", faults);
    }
    for (index, value) in values.iter().enumerate() {
        dns_subdomain(value, &path.field("values").index(index), faults);
    }
}

fn count_of_values(operator: &str, values: &[String], path: &Path<'_>, faults: &mut Faults) {
    match operator {
        "In" | "NotIn" if values.is_empty() => required(path, "add at least one value", faults),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            faults.add(
                path,
                format!("{operator} compares with nothing"),
                "remove the values, or write `operator: In`",
            );
        }
        "Gt" | "Lt" if values.len() != 1 => required(path, "write exactly one number", faults),
        _ => {}
    }
}
