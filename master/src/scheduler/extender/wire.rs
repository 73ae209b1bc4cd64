//! Messages of the extender protocol `k8s.io/kube-scheduler/extender/v1`. Pure.
//!
//! Requests use the Go field names. Go decodes field names in any case, so responses may use any case too.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::PreemptionOffer;
use crate::scheduler::pod::Pod;

/// `ExtenderArgs`: a pod, and nodes as objects or as names.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExtenderArgs<'a> {
    pod: &'a Value,
    nodes: Option<NodeList<'a>>,
    node_names: Option<&'a [String]>,
}

#[derive(Debug, Serialize)]
struct NodeList<'a> {
    metadata: Map<String, Value>,
    items: Vec<&'a Value>,
}

impl<'a> ExtenderArgs<'a> {
    /// Creates arguments with node names, for extenders that cache nodes.
    pub fn named(pod: &'a Value, names: &'a [String]) -> Self {
        Self { pod, nodes: None, node_names: Some(names) }
    }

    /// Creates arguments with whole nodes.
    pub fn whole(pod: &'a Value, items: Vec<&'a Value>) -> Self {
        Self { pod, nodes: Some(NodeList { metadata: Map::new(), items }), node_names: None }
    }
}

/// A parsed `ExtenderFilterResult`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterResult {
    /// Names of the remaining nodes.
    pub left: Vec<String>,
    /// Rejection reasons by node name.
    pub refused: BTreeMap<String, String>,
    /// Reasons by node name, for nodes that preemption cannot make feasible.
    pub unresolvable: BTreeMap<String, String>,
}

/// Victims on a node: UIDs, and the number of PodDisruptionBudget violations.
pub type MetaVictims = (Vec<String>, i64);

/// Parses an `ExtenderFilterResult` for the nodes in `candidates`.
///
/// # Errors
/// If the response has an error, or names a node that is not in `candidates`.
pub fn filter_result(answer: &Value, url: &str, candidates: &[String]) -> Result<FilterResult, String> {
    error_of(answer)?;
    let names: Vec<String> = match (field(answer, "nodeNames"), field(answer, "nodes")) {
        (Some(Value::Array(names)), _) => names.iter().map(|name| text(Some(name))).collect(),
        (_, Some(nodes)) => {
            let items = field(nodes, "items").and_then(Value::as_array).into_iter().flatten();
            items.map(|node| text(node.pointer("/metadata/name"))).collect()
        }
        _ => Vec::new(),
    };
    let candidates: HashSet<&String> = candidates.iter().collect();
    if let Some(unknown) = names.iter().find(|name| !candidates.contains(name)) {
        return Err(format!(
            "extender {url:?} claims a filtered node {unknown:?} which is not found in the input node list"
        ));
    }
    let failed = |name: &str| {
        let entries = field(answer, name).and_then(Value::as_object).into_iter().flatten();
        entries.map(|(node, why)| (node.clone(), text(Some(why)))).collect()
    };
    Ok(FilterResult {
        left: names,
        refused: failed("failedNodes"),
        unresolvable: failed("failedAndUnresolvableNodes"),
    })
}

/// Parses a `HostPriorityList`.
///
/// # Errors
/// If the response is not a list.
pub fn scores(answer: &Value) -> Result<Vec<(String, i64)>, String> {
    let list = answer.as_array().ok_or("the response is not a HostPriorityList: it is not a list")?;
    let score = |one: &Value| {
        let score = field(one, "score").and_then(Value::as_i64).unwrap_or_default();
        (text(field(one, "host")), score)
    };
    Ok(list.iter().map(score).collect())
}

/// Builds `ExtenderBindingArgs`.
pub fn binding(pod: &Pod, node: &str) -> Value {
    json!({"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node})
}

/// Checks the `error` field of any response.
///
/// # Errors
/// If the field is not empty. The error is its text.
pub fn error_of(answer: &Value) -> Result<(), String> {
    match text(field(answer, "error")) {
        none if none.is_empty() => Ok(()),
        error => Err(error),
    }
}

/// Builds `ExtenderPreemptionArgs` with UIDs of pods, for extenders that cache nodes.
pub fn meta_victims(pod: &Value, offers: &HashMap<String, PreemptionOffer>) -> Value {
    let victims = on_nodes(offers, |victim| Some(json!({"UID": victim.uid})));
    json!({"Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": victims})
}

/// Builds `ExtenderPreemptionArgs` with whole pods.
pub fn victims(
    pod: &Value,
    offers: &HashMap<String, PreemptionOffer>,
    whole: &HashMap<String, Value>,
) -> Value {
    let victims = on_nodes(offers, |victim| whole.get(&victim.uid).cloned());
    json!({"Pod": pod, "NodeNameToVictims": victims, "NodeNameToMetaVictims": null})
}

fn on_nodes(
    offers: &HashMap<String, PreemptionOffer>,
    encode: impl Fn(&Pod) -> Option<Value>,
) -> Map<String, Value> {
    let of = |offer: &PreemptionOffer| {
        let pods: Vec<Value> = offer.victims.iter().filter_map(|victim| encode(victim)).collect();
        json!({"Pods": pods, "NumPDBViolations": offer.violations})
    };
    offers.iter().map(|(node, offer)| (node.clone(), of(offer))).collect()
}

/// Parses an `ExtenderPreemptionResult`.
pub fn preemption_result(answer: &Value) -> HashMap<String, MetaVictims> {
    let nodes = field(answer, "nodeNameToMetaVictims").and_then(Value::as_object).into_iter().flatten();
    let on = |(node, victims): (&String, &Value)| {
        let pods = field(victims, "pods").and_then(Value::as_array).into_iter().flatten();
        let uids = pods.map(|pod| text(field(pod, "uid"))).collect();
        let violations = field(victims, "numPDBViolations").and_then(Value::as_i64).unwrap_or_default();
        (node.clone(), (uids, violations))
    };
    nodes.map(on).collect()
}

/// Returns a field that is not null. Ignores the case of its name.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = object.as_object()?;
    let found = fields.iter().find(|(other, value)| other.eq_ignore_ascii_case(name) && !value.is_null());
    found.map(|(_, value)| value)
}

fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    //! Tests of requests and responses.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::sync::Arc;

    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn extender_requests_use_the_stock_field_names() {
        let pod = json!({"kind": "Pod"});
        let nodes = names(&["a"]);
        assert_eq!(
            json!(ExtenderArgs::named(&pod, &nodes)),
            json!({"Pod": pod, "Nodes": null, "NodeNames": ["a"]})
        );
        let node = json!({"kind": "Node"});
        assert_eq!(
            json!(ExtenderArgs::whole(&pod, vec![&node])),
            json!({"Pod": pod, "Nodes": {"metadata": {}, "items": [node]}, "NodeNames": null})
        );
        let of = Pod { name: "p".into(), namespace: "n".into(), uid: "u".into(), ..Pod::default() };
        assert_eq!(
            binding(&of, "a"),
            json!({"PodName": "p", "PodNamespace": "n", "PodUID": "u", "Node": "a"})
        );
        let on = PreemptionOffer { node: "a".to_owned(), victims: vec![Arc::new(of)], violations: 1 };
        let on = HashMap::from([("a".to_owned(), on)]);
        assert_eq!(
            meta_victims(&pod, &on)["NodeNameToMetaVictims"],
            json!({"a": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}})
        );
        let there = HashMap::from([("u".to_owned(), json!({"kind": "Pod"}))]);
        assert_eq!(
            victims(&pod, &on, &there)["NodeNameToVictims"],
            json!({"a": {"Pods": [{"kind": "Pod"}], "NumPDBViolations": 1}})
        );
    }

    #[test]
    fn extender_responses_are_parsed_in_any_case() {
        let candidates = names(&["a", "b", "c"]);
        let expected = FilterResult {
            left: names(&["a"]),
            refused: BTreeMap::from([("b".to_owned(), "no".to_owned())]),
            unresolvable: BTreeMap::from([("c".to_owned(), "never".to_owned())]),
        };
        let failed = json!({"b": "no"});
        for answer in [
            json!({"NodeNames": ["a"], "FailedNodes": failed, "FailedAndUnresolvableNodes": {"c": "never"}, "Error": ""}),
            json!({"nodenames": ["a"], "failedNodes": failed, "failedAndUnresolvableNodes": {"c": "never"}}),
            json!({"nodes": {"items": [{"metadata": {"name": "a"}}]}, "nodeNames": null, "failedNodes": failed,
                "failedAndUnresolvableNodes": {"c": "never"}}),
        ] {
            assert_eq!(filter_result(&answer, "u", &candidates), Ok(expected.clone()), "{answer}");
        }
        assert_eq!(filter_result(&json!({"error": "broken"}), "u", &candidates), Err("broken".to_owned()));
        assert!(filter_result(&json!({"nodeNames": ["x"]}), "u", &candidates).unwrap_err().contains("\"x\""));
        let non_zero_requested = scores(&json!([{"Host": "a", "Score": 3}, {"host": "b", "score": 4}]));
        assert_eq!(non_zero_requested, Ok(vec![("a".to_owned(), 3), ("b".to_owned(), 4)]));
        assert!(scores(&json!({})).is_err());
        let left = preemption_result(
            &json!({"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}], "NumPDBViolations": 2}}}),
        );
        assert_eq!(left, HashMap::from([("a".to_owned(), (names(&["u"]), 2))]));
    }
}
