//! Node selector terms, and the node affinity that a pod requires. The scheduler and the DaemonSet controller use it.

use std::collections::BTreeSet;

use super::labels::{Labels, Requirement};
use super::selector::{self, NodeSelector};
use super::values::List;

/// The only node field that `matchFields` supports.
pub const NODE_NAME: &str = "metadata.name";

/// A node selector term. All requirements must match; an empty term matches nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSelectorTerm {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

impl NodeSelectorTerm {
    /// Parses `matchExpressions` and `matchFields`.
    pub fn of(term: &selector::NodeSelectorTerm) -> Self {
        let parse = |all: &List<selector::Requirement>| all.iter().map(Requirement::of).collect();
        Self { labels: parse(&term.match_expressions), fields: parse(&term.match_fields) }
    }

    /// Parses all terms of a node selector.
    pub fn all_of(selector: &NodeSelector) -> Vec<Self> {
        selector.node_selector_terms.iter().map(Self::of).collect()
    }

    /// Whether a node with the given name and labels matches.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        let is_empty = self.labels.is_empty() && self.fields.is_empty();
        let field = |key: &str| (key == NODE_NAME).then_some(name);
        !is_empty
            && self.fields.iter().all(|requirement| requirement.matches_value(field))
            && self.labels.iter().all(|requirement| requirement.matches(labels))
    }

    /// Returns the node names that `matchFields` requires, or `None` if it requires none.
    fn names(&self) -> Option<BTreeSet<&str>> {
        let names = self.fields.iter().filter_map(|requirement| match requirement {
            Requirement::In(key, names) if key == NODE_NAME => {
                Some(names.iter().map(String::as_str).collect::<BTreeSet<_>>())
            }
            _ => None,
        });
        names.reduce(|some, others| some.intersection(&others).copied().collect())
    }
}

/// `nodeSelector` and the required node affinity of a pod. A node must match both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequiredNodeAffinity {
    /// Labels that the node must have.
    node_selector: Labels,
    /// Required terms, of which one must match. `None` if there is no requirement.
    terms: Option<Vec<NodeSelectorTerm>>,
}

impl RequiredNodeAffinity {
    /// Parses `nodeSelector` and `affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution`.
    pub fn of(node_selector: &Labels, required: Option<&NodeSelector>) -> Self {
        Self { node_selector: node_selector.clone(), terms: required.map(NodeSelectorTerm::all_of) }
    }

    /// Whether a node with the given name and labels matches.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(name, labels)))
    }

    /// Returns the nodes that the terms name by `metadata.name`, if each of the terms names some.
    pub fn named_nodes(&self) -> Option<BTreeSet<&str>> {
        let names: Vec<_> =
            self.terms.as_ref()?.iter().map(NodeSelectorTerm::names).collect::<Option<_>>()?;
        let names: BTreeSet<&str> = names.into_iter().flatten().collect();
        (!names.is_empty()).then_some(names)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Value, json};

    use super::*;

    fn affinity(selector: &Value, required: &Value) -> RequiredNodeAffinity {
        let required: Option<NodeSelector> = serde_json::from_value(required.clone()).unwrap();
        RequiredNodeAffinity::of(&serde_json::from_value(selector.clone()).unwrap(), required.as_ref())
    }

    #[test]
    fn a_node_must_match_the_selector_and_one_term() {
        let labels: Labels = [("disk", "ssd"), ("zone", "a")].into_iter().collect();
        let zone =
            |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
        let name =
            |name: &str| json!({"matchFields": [{"key": NODE_NAME, "operator": "In", "values": [name]}]});
        for (selector, terms, expected) in [
            (json!({}), Value::Null, true),
            (json!({"disk": "ssd"}), Value::Null, true),
            (json!({"disk": "hdd"}), Value::Null, false),
            (json!({}), json!([zone("b"), zone("a")]), true),
            (json!({"disk": "hdd"}), json!([zone("a")]), false),
            (json!({}), json!([name("n")]), true),
            (json!({}), json!([name("m")]), false),
            // An empty term, and a selector without terms, match nothing.
            (json!({}), json!([{}]), false),
            (json!({}), json!([]), false),
        ] {
            let required = if terms.is_null() { Value::Null } else { json!({"nodeSelectorTerms": terms}) };
            assert_eq!(
                affinity(&selector, &required).matches("n", &labels),
                expected,
                "{selector} {required}"
            );
        }
    }

    #[test]
    fn terms_name_nodes_only_if_each_of_them_does() {
        let name =
            |name: &str| json!({"matchFields": [{"key": NODE_NAME, "operator": "In", "values": [name]}]});
        let any = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
        let names = |terms: Value| {
            let affinity = affinity(&json!({}), &json!({"nodeSelectorTerms": terms}));
            affinity.named_nodes().map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(names(json!([name("a"), name("b")])), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!((names(json!([name("a"), any])), names(json!([]))), (None, None));
    }
}
