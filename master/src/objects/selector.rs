//! Label selectors and node selector terms.

use serde::Deserialize;

use super::values::{List, StringMap};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels with their values.
    pub match_labels: StringMap,
    /// Requirements on labels.
    pub match_expressions: List<Requirement>,
}

/// A requirement of a label selector or a node selector term.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Requirement {
    /// The label or field.
    pub key: Box<str>,
    /// Operator: `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: Box<str>,
    /// Values for the operator.
    pub values: List<Box<str>>,
}

impl LabelSelector {
    /// Whether all requirements match. An empty selector matches everything.
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
    }
}

impl Requirement {
    /// Whether the labels fulfil the requirement. An unknown operator matches nothing, and so do `Gt` and `Lt`,
    /// which only node selectors have.
    pub fn matches(&self, labels: &StringMap) -> bool {
        let value = labels.get(&self.key);
        let is_listed = |value: &str| self.values.iter().any(|one| **one == *value);
        match &*self.operator {
            "In" => value.is_some_and(is_listed),
            "NotIn" => !value.is_some_and(is_listed),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

/// A node selector: one of the terms must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector {
    pub node_selector_terms: List<NodeSelectorTerm>,
}

/// A node selector term: all requirements must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// Requirements on labels.
    pub match_expressions: List<Requirement>,
    pub match_fields: List<Requirement>,
}
