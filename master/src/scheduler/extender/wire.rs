//! What is said to extenders and what they answer, in the JSON of the stock scheduler: `k8s.io/kube-scheduler/extender/v1`. Pure.
//!
//! Its fields are called as in Go, and Go reads them whatever their case, so that either is written by those who answer.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Offer;
use crate::scheduler::pod::Pod;

/// `ExtenderArgs`: a pod, and nodes whole or by their names.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Args<'a> {
    pod: &'a Value,
    nodes: Option<Items<'a>>,
    node_names: Option<&'a [String]>,
}

#[derive(Debug, Serialize)]
struct Items<'a> {
    metadata: Map<String, Value>,
    items: Vec<&'a Value>,
}

impl<'a> Args<'a> {
    /// For who knows the nodes.
    pub fn named(pod: &'a Value, names: &'a [String]) -> Self {
        Self { pod, nodes: None, node_names: Some(names) }
    }

    /// With the objects.
    pub fn whole(pod: &'a Value, items: Vec<&'a Value>) -> Self {
        Self { pod, nodes: Some(Items { metadata: Map::new(), items }), node_names: None }
    }
}

/// What was said of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// Those that are left.
    pub left: Vec<String>,
    /// Why others are not, by their names.
    pub refused: BTreeMap<String, String>,
    /// The same where it would be so without any pods there.
    pub never: BTreeMap<String, String>,
}

/// Who would be ended on a node: identities, and how many of them in spite of their budgets.
pub type MetaVictims = (Vec<String>, i64);

/// `ExtenderFilterResult`, about these nodes.
///
/// # Errors
/// What he says went wrong, or what is wrong with what he says.
pub fn filtered(answer: &Value, url: &str, asked: &[String]) -> Result<Filtered, String> {
    error_of(answer)?;
    let names: Vec<String> = match (field(answer, "nodeNames"), field(answer, "nodes")) {
        (Some(Value::Array(names)), _) => names.iter().map(|name| text(Some(name))).collect(),
        (_, Some(nodes)) => {
            let items = field(nodes, "items").and_then(Value::as_array).into_iter().flatten();
            items.map(|node| text(node.pointer("/metadata/name"))).collect()
        }
        _ => Vec::new(),
    };
    let asked: HashSet<&String> = asked.iter().collect();
    if let Some(stranger) = names.iter().find(|name| !asked.contains(name)) {
        return Err(format!(
            "extender {url:?} claims a filtered node {stranger:?} which is not found in the input node list"
        ));
    }
    let failed = |name: &str| {
        let entries = field(answer, name).and_then(Value::as_object).into_iter().flatten();
        entries.map(|(node, why)| (node.clone(), text(Some(why)))).collect()
    };
    Ok(Filtered { left: names, refused: failed("failedNodes"), never: failed("failedAndUnresolvableNodes") })
}

/// `HostPriorityList`.
///
/// # Errors
/// When it is none.
pub fn scores(answer: &Value) -> Result<Vec<(String, i64)>, String> {
    let list = answer.as_array().ok_or("the answer is no HostPriorityList: it is not a list")?;
    let score = |one: &Value| {
        let score = field(one, "score").and_then(Value::as_i64).unwrap_or_default();
        (text(field(one, "host")), score)
    };
    Ok(list.iter().map(score).collect())
}

/// `ExtenderBindingArgs`.
pub fn binding(pod: &Pod, node: &str) -> Value {
    json!({"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node})
}

/// `ExtenderBindingResult`, and that of others where they say what went wrong.
///
/// # Errors
/// What he says went wrong.
pub fn error_of(answer: &Value) -> Result<(), String> {
    match text(field(answer, "error")) {
        none if none.is_empty() => Ok(()),
        error => Err(error),
    }
}

/// `ExtenderPreemptionArgs` for who knows the nodes.
pub fn meta_victims(pod: &Value, offers: &HashMap<String, Offer>) -> Value {
    let victims = on_nodes(offers, |victim| Some(json!({"UID": victim.uid})));
    json!({"Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": victims})
}

/// The same with whole pods, by their identities.
pub fn victims(pod: &Value, offers: &HashMap<String, Offer>, whole: &HashMap<String, Value>) -> Value {
    let victims = on_nodes(offers, |victim| whole.get(&victim.uid).cloned());
    json!({"Pod": pod, "NodeNameToVictims": victims, "NodeNameToMetaVictims": null})
}

fn on_nodes(offers: &HashMap<String, Offer>, say: impl Fn(&Pod) -> Option<Value>) -> Map<String, Value> {
    let of = |offer: &Offer| {
        let pods: Vec<Value> = offer.victims.iter().filter_map(|victim| say(victim)).collect();
        json!({"Pods": pods, "NumPDBViolations": offer.violations})
    };
    offers.iter().map(|(node, offer)| (node.clone(), of(offer))).collect()
}

/// `ExtenderPreemptionResult`.
pub fn spared(answer: &Value) -> HashMap<String, MetaVictims> {
    let nodes = field(answer, "nodeNameToMetaVictims").and_then(Value::as_object).into_iter().flatten();
    let on = |(node, victims): (&String, &Value)| {
        let pods = field(victims, "pods").and_then(Value::as_array).into_iter().flatten();
        let uids = pods.map(|pod| text(field(pod, "uid"))).collect();
        let violations = field(victims, "numPDBViolations").and_then(Value::as_i64).unwrap_or_default();
        (node.clone(), (uids, violations))
    };
    nodes.map(on).collect()
}

/// A field that is there and is not null, whatever the case of its name.
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
    //! What is said and what is understood.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use std::sync::Arc;

    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_is_said_has_the_names_of_the_stock_scheduler() {
        let pod = json!({"kind": "Pod"});
        let nodes = names(&["a"]);
        assert_eq!(json!(Args::named(&pod, &nodes)), json!({"Pod": pod, "Nodes": null, "NodeNames": ["a"]}));
        let node = json!({"kind": "Node"});
        assert_eq!(
            json!(Args::whole(&pod, vec![&node])),
            json!({"Pod": pod, "Nodes": {"metadata": {}, "items": [node]}, "NodeNames": null})
        );
        let of = Pod { name: "p".into(), namespace: "n".into(), uid: "u".into(), ..Pod::default() };
        assert_eq!(
            binding(&of, "a"),
            json!({"PodName": "p", "PodNamespace": "n", "PodUID": "u", "Node": "a"})
        );
        let on = Offer { node: "a".to_owned(), victims: vec![Arc::new(of)], violations: 1 };
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
    fn what_is_answered_is_understood_in_either_case() {
        let asked = names(&["a", "b", "c"]);
        let expected = Filtered {
            left: names(&["a"]),
            refused: BTreeMap::from([("b".to_owned(), "no".to_owned())]),
            never: BTreeMap::from([("c".to_owned(), "never".to_owned())]),
        };
        let failed = json!({"b": "no"});
        for answer in [
            json!({"NodeNames": ["a"], "FailedNodes": failed, "FailedAndUnresolvableNodes": {"c": "never"}, "Error": ""}),
            json!({"nodenames": ["a"], "failedNodes": failed, "failedAndUnresolvableNodes": {"c": "never"}}),
            json!({"nodes": {"items": [{"metadata": {"name": "a"}}]}, "nodeNames": null, "failedNodes": failed,
                "failedAndUnresolvableNodes": {"c": "never"}}),
        ] {
            assert_eq!(filtered(&answer, "u", &asked), Ok(expected.clone()), "{answer}");
        }
        assert_eq!(filtered(&json!({"error": "broken"}), "u", &asked), Err("broken".to_owned()));
        assert!(filtered(&json!({"nodeNames": ["x"]}), "u", &asked).unwrap_err().contains("\"x\""));
        let scored = scores(&json!([{"Host": "a", "Score": 3}, {"host": "b", "score": 4}]));
        assert_eq!(scored, Ok(vec![("a".to_owned(), 3), ("b".to_owned(), 4)]));
        assert!(scores(&json!({})).is_err());
        let left =
            spared(&json!({"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "u"}], "NumPDBViolations": 2}}}));
        assert_eq!(left, HashMap::from([("a".to_owned(), (names(&["u"]), 2))]));
    }
}
