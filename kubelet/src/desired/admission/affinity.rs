//! Evaluates `nodeSelector` and required node affinity of a pod against the node's labels and name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, Pod};

type Labels = BTreeMap<String, String>;

/// Whether the node matches the pod's node selector and required node affinity.
pub(super) fn fits(pod: &Pod, labels: &Labels, node: &str) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let mut selector = spec.node_selector.iter().flatten();
    if !selector.all(|(key, value)| labels.get(key) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let name = Labels::from([("metadata.name".to_owned(), node.to_owned())]);
    required.is_none_or(|required| required.node_selector_terms.iter().any(|term| holds(term, labels, &name)))
}

/// Whether all requirements of a term match. An empty term matches no node.
fn holds(term: &NodeSelectorTerm, labels: &Labels, name: &Labels) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|requirement| is_met(requirement, labels))
        && fields.iter().all(|requirement| is_met(requirement, name))
}

fn is_met(requirement: &NodeSelectorRequirement, labels: &Labels) -> bool {
    let value = labels.get(&requirement.key);
    let values = requirement.values.as_deref().unwrap_or_default();
    let numbers = || Some((value?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(has, than)| has > than),
        "Lt" => numbers().is_some_and(|(has, than)| has < than),
        _ => false,
    }
}
